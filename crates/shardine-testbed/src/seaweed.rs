//! SeaweedFS: S3 with checked signatures, conditional writes and multipart uploads.

use std::fs;
use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::error::Attempt as _;
use crate::ports::{Ports, local};
use crate::process::{Launch, Process, folder, retried};
use crate::{BedError, Result, http, program};

/// A SeaweedFS server with an S3 gateway.
///
/// Takes about 3 s to start and 120 MB of memory. Its S3 addresses are path-style:
/// `http://127.0.0.1:PORT/BUCKET/KEY`.
pub struct SeaweedFs {
    s3: SocketAddr,
    filer: SocketAddr,
    _process: Process,
    _ports: Ports,
}

impl SeaweedFs {
    /// The only access key; it may do everything.
    pub const ACCESS_KEY: &str = "testkey";
    /// Its secret.
    pub const SECRET_KEY: &str = "testsecret";
    /// A region to sign for; the server accepts any.
    pub const REGION: &str = "us-east-1";

    /// Starts a server and waits until it can store objects.
    pub fn start() -> Result<Self> {
        let weed = program::WEED.find()?;
        retried(|| Self::start_once(&weed))
    }

    /// The server shared by all tests of this process; started on first use.
    pub fn shared() -> std::result::Result<&'static Self, &'static BedError> {
        static SHARED: OnceLock<Result<SeaweedFs>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn start_once(weed: &std::path::Path) -> Result<Self> {
        let folder = folder("seaweedfs")?;
        let identities = serde_json::json!({"identities": [{
            "name": "test",
            "credentials": [{"accessKey": Self::ACCESS_KEY, "secretKey": Self::SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }]});
        let config = folder.path().join("s3.json");
        fs::write(&config, identities.to_string()).attempt("cannot write s3.json")?;
        let data = folder.path().join("data");
        fs::create_dir(&data).attempt("cannot make the folder of the data")?;

        let ports = Ports::reserve(8)?;
        let [master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc] =
            ports.numbers();
        let mut args = vec!["server".into()];
        for (name, value) in [
            ("dir", data.display().to_string()),
            ("ip", "127.0.0.1".into()),
            ("ip.bind", "127.0.0.1".into()),
            ("master.port", master.to_string()),
            ("master.port.grpc", master_grpc.to_string()),
            // Without peers, it need not wait for others to elect a leader: saves 5 s.
            ("master.peers", "none".into()),
            ("master.telemetry", "false".into()),
            ("master.volumeSizeLimitMB", "256".into()),
            ("volume.port", volume.to_string()),
            ("volume.port.grpc", volume_grpc.to_string()),
            ("volume.max", "1000".into()),
            ("filer.port", filer.to_string()),
            ("filer.port.grpc", filer_grpc.to_string()),
            ("s3", "true".into()),
            ("s3.port", s3.to_string()),
            ("s3.port.grpc", s3_grpc.to_string()),
            // Other services that would take fixed ports.
            ("s3.port.iceberg", "0".into()),
            ("s3.port.lance", "0".into()),
            ("s3.config", config.display().to_string()),
        ] {
            args.push(format!("-{name}={value}").into());
        }
        // It also listens on Unix sockets, at names that cannot be chosen.
        let sockets = [
            ("master-grpc", master_grpc),
            ("volume-grpc", volume_grpc),
            ("filer-grpc", filer_grpc),
            ("filer", filer),
            ("s3-grpc", s3_grpc),
            ("s3", s3),
        ];
        let launch = Launch {
            server: "SeaweedFS",
            program: weed,
            args,
            // Each bucket has its own volumes; by default it would get seven immediately.
            env: vec![("WEED_MASTER_VOLUME_GROWTH_COPY_1", "2".into())],
            sockets: sockets
                .iter()
                .map(|(name, port)| format!("/tmp/seaweedfs-{name}-{port}.sock"))
                .collect(),
        };
        let mut process = Process::start(folder, launch)?;
        let (s3, filer, master) = (local(s3), local(filer), local(master));
        process.wait(|| http::get_below(s3, "/", 500).map(|_| ()))?;
        process.wait(|| {
            let answer = http::get_below(master, "/dir/assign", 400)?;
            if answer.text().contains("\"fid\"") { Ok(()) } else { Err(answer.text()) }
        })?;
        process.wait(|| http::get_below(filer, "/", 400).map(|_| ()))?;
        Ok(Self { s3, filer, _process: process, _ports: ports })
    }

    /// Where its S3 gateway listens.
    pub fn addr(&self) -> SocketAddr {
        self.s3
    }

    /// The same as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.s3)
    }

    /// Creates a bucket, without having to sign for it. An existing one is left as it is.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        let answer = http::request(self.filer, "POST", &format!("/buckets/{name}/"), &[], b"")
            .attempt("cannot ask SeaweedFS for a bucket")?;
        if answer.status == 201 || answer.text().contains("already exists") {
            return Ok(());
        }
        Err(BedError::Refused { what: format!("bucket {name}"), answer: answer.text() })
    }
}
