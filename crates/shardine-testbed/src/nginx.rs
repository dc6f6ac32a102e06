//! nginx: plain HTTP for a folder, with and without the features that a reader would like to have.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::error::Attempt as _;
use crate::ports::{Ports, local};
use crate::process::{Launch, Process, folder, retried};
use crate::{BedError, Result, http, program};

/// What an [`Nginx`] can do beyond serving reads.
#[derive(Debug, Clone, Default)]
pub struct NginxOptions {
    /// Whether it also listens with TLS.
    pub tls: bool,
    /// Whether PUT and DELETE change the folder.
    pub writable: bool,
}

/// An nginx that serves one folder. Starts in a tenth of a second.
///
/// The folder is available under several paths:
///
/// | path | |
/// |---|---|
/// | `/` | ranges, ETag, Last-Modified |
/// | `/no-ranges/` | ranges are ignored: the answer is 200 and everything |
/// | `/no-etag/` | no ETag, but Last-Modified |
/// | `/bare/` | neither ETag nor Last-Modified |
/// | `/gzip/` | every file is said to be encoded as gzip |
/// | `/refusing/` | what does not exist is refused: 403, not 404 |
pub struct Nginx {
    http: SocketAddr,
    tls: Option<SocketAddr>,
    process: Process,
    _ports: Ports,
}

impl Nginx {
    /// Serves a folder.
    pub fn start(root: &Path, options: &NginxOptions) -> Result<Self> {
        let nginx = program::NGINX.find()?;
        let root = root.canonicalize().attempt(root.display().to_string())?;
        retried(|| Self::start_once(&nginx, &root, options))
    }

    fn start_once(nginx: &Path, root: &Path, options: &NginxOptions) -> Result<Self> {
        let folder = folder("nginx")?;
        if options.tls {
            make_certificate(&folder)?;
        }
        let ports = Ports::reserve(2)?;
        let [http, tls] = ports.numbers();
        let config = folder.path().join("nginx.conf");
        fs::write(&config, configuration(folder.path(), root, http, tls, options))
            .attempt("cannot write nginx.conf")?;
        let launch = Launch {
            server: "nginx",
            program: nginx,
            args: vec!["-e".into(), "stderr".into(), "-c".into(), config.into()],
            env: Vec::new(),
            sockets: Vec::new(),
        };
        let mut process = Process::start(folder, launch)?;
        process.wait(|| http::get_below(local(http), "/", 500).map(|_| ()))?;
        let tls = options.tls.then(|| local(tls));
        Ok(Self { http: local(http), tls, process, _ports: ports })
    }

    /// Where it listens without TLS.
    pub fn addr(&self) -> SocketAddr {
        self.http
    }

    /// The URL of the folder.
    pub fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Where it listens with TLS, if it does.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls
    }

    /// The URL of the folder with TLS, if there is one. The certificate is for `localhost` and
    /// 127.0.0.1.
    pub fn tls_url(&self) -> Option<String> {
        self.tls.map(|addr| format!("https://{addr}"))
    }

    /// The certificate to trust (PEM). It is self-signed, and the file exists only with
    /// [`NginxOptions::tls`].
    pub fn certificate(&self) -> PathBuf {
        self.process.folder().join("certificate.pem")
    }
}

fn configuration(
    folder: &Path,
    root: &Path,
    http: u16,
    tls: u16,
    options: &NginxOptions,
) -> String {
    let (folder, root) = (folder.display(), root.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("  {what}_temp_path {folder}/{what};\n"))
        .collect();
    let tls = if options.tls {
        format!(
            "    listen 127.0.0.1:{tls} ssl;\n    \
             ssl_certificate {folder}/certificate.pem;\n    \
             ssl_certificate_key {folder}/key.pem;\n"
        )
    } else {
        String::new()
    };
    let writable = if options.writable {
        "    dav_methods PUT DELETE MKCOL COPY MOVE;\n    create_full_put_path on;\n"
    } else {
        ""
    };
    // One process: a worker would survive if its master was killed.
    format!(
        "daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
{temporary}  access_log off;
  default_type application/octet-stream;
  sendfile on;
  keepalive_timeout 1h;
  keepalive_requests 1000000;
  client_max_body_size 0;
  server {{
    listen 127.0.0.1:{http};
{tls}{writable}    location / {{ root \"{root}\"; }}
    location /no-ranges/ {{ alias \"{root}/\"; max_ranges 0; }}
    location /no-etag/ {{ alias \"{root}/\"; etag off; }}
    location /gzip/ {{ alias \"{root}/\"; add_header Content-Encoding gzip; }}
    location /refusing/ {{ alias \"{root}/\"; error_page 404 =403 @refused; }}
    location @refused {{ return 403; }}
    location /bare/ {{ alias \"{root}/\"; etag off; add_header Last-Modified \"\"; }}
  }}
}}
"
    )
}

/// Creates a self-signed certificate. It is not a CA certificate: some libraries refuse those from
/// servers.
fn make_certificate(folder: &TempDir) -> Result<()> {
    let config = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = extensions\n\
        [name]\nCN = localhost\n\
        [extensions]\nbasicConstraints = critical,CA:FALSE\n\
        subjectAltName = DNS:localhost,IP:127.0.0.1\nextendedKeyUsage = serverAuth\n";
    let path = folder.path().join("openssl.cnf");
    fs::write(&path, config).attempt("cannot write openssl.cnf")?;
    let output = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "7", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem", "-config", "openssl.cnf"])
        .current_dir(folder.path())
        .output()
        .attempt("cannot run openssl")?;
    if output.status.success() {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(BedError::Refused { what: "a certificate".into(), answer })
}
