//! Azurite: Microsoft's emulator of Azure Blob Storage.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::error::Attempt as _;
use crate::ports::{Ports, local};
use crate::process::{Launch, Process, folder, retried};
use crate::{BedError, Result, http, program};

/// An Azurite server.
///
/// Takes about 3 s to start and 150 MB of memory. Containers are at
/// `http://127.0.0.1:PORT/ACCOUNT/CONTAINER`.
pub struct Azurite {
    addr: SocketAddr,
    _process: Process,
    _ports: Ports,
}

impl Azurite {
    /// The only account.
    pub const ACCOUNT: &str = "devstoreaccount1";
    /// Its key, the same in every Azurite.
    pub const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// Starts a server and waits until it answers.
    pub fn start() -> Result<Self> {
        let azurite = program::AZURITE.find()?;
        retried(|| Self::start_once(&azurite))
    }

    /// The server shared by all tests of this process; started on first use.
    pub fn shared() -> std::result::Result<&'static Self, &'static BedError> {
        static SHARED: OnceLock<Result<Azurite>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn start_once(azurite: &Path) -> Result<Self> {
        let folder = folder("azurite")?;
        let ports = Ports::reserve(1)?;
        let [port] = ports.numbers();
        let launch = Launch {
            server: "Azurite",
            program: azurite,
            args: vec![
                "--blobHost".into(),
                "127.0.0.1".into(),
                "--blobPort".into(),
                port.to_string().into(),
                // Otherwise it refuses protocol versions newer than itself.
                "--skipApiVersionCheck".into(),
                "--disableTelemetry".into(),
                "--silent".into(),
                "--location".into(),
                folder.path().into(),
            ],
            env: Vec::new(),
            sockets: Vec::new(),
        };
        let mut process = Process::start(folder, launch)?;
        let addr = local(port);
        process.wait(|| {
            http::get_below(addr, &format!("/{}?comp=list", Self::ACCOUNT), 500).map(|_| ())
        })?;
        Ok(Self { addr, _process: process, _ports: ports })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of its account.
    pub fn endpoint(&self) -> String {
        format!("http://{}/{}", self.addr, Self::ACCOUNT)
    }

    /// Creates a container. An existing one is left as it is.
    pub fn create_container(&self, name: &str) -> Result<()> {
        // Where Azurite is installed, so is Node, which can sign.
        let output = Command::new("node")
            .args(["-e", include_str!("azurite_container.js"), "--"])
            .args([&self.addr.port().to_string(), Self::ACCOUNT, Self::KEY, name])
            .output()
            .attempt("cannot run node")?;
        if output.status.success() {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(BedError::Refused { what: format!("container {name}"), answer })
    }
}
