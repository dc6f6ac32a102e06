//! Servers and the proxy on the command line, for benchmarks and manual experiments.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use shardine_testbed::{Azurite, Faults, Nginx, NginxOptions, Proxy, ProxyOptions, SeaweedFs};

const USAGE: &str = "\
shardine-testbed <command>: starts something on 127.0.0.1, says in one line of JSON where it is,
and runs until it is killed

  seaweed [--bucket NAME]        an S3 server, SeaweedFS
  azurite [--container NAME]     an Azure server, Azurite
  nginx --root FOLDER [--tls yes] [--writable yes]
                                 plain HTTP; the folder is also below /no-ranges, /no-etag, /bare
  proxy --upstream HOST:PORT [--listen 127.0.0.1:PORT] [--latency-ms N] [--faults SPEC] [--seed N]
        [--bandwidth BYTES_PER_SECOND] [--total-bandwidth BYTES_PER_SECOND]
                                 a faulty network in front of a server. GET /__proxy/log answers
                                 what was requested, /__proxy/reset forgets it.
                                 SPEC: FAULT[:CONDITION,...][;...], FAULT one of drop, drop-middle,
                                 lost-answer, status=CODE, truncate, slow=BYTES_PER_10_MS,
                                 stall=MS; CONDITION one of method=M, path=PART, nth=N, skip=N,
                                 times=N, p=PROBABILITY, retry-after=SECONDS
";

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shardine-testbed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), Error> {
    let (command, rest) = args.split_first().ok_or(USAGE)?;
    let mut options = Options::parse(rest)?;
    match command.as_str() {
        "seaweed" => {
            let bucket = options.take("bucket").unwrap_or_else(|| "bucket".into());
            options.finish()?;
            let server = SeaweedFs::start()?;
            server.create_bucket(&bucket)?;
            stay(&json!({
                "addr": server.addr().to_string(),
                "endpoint": server.endpoint(),
                "access_key": SeaweedFs::ACCESS_KEY,
                "secret_key": SeaweedFs::SECRET_KEY,
                "region": SeaweedFs::REGION,
                "bucket": bucket,
            }))
        }
        "azurite" => {
            let container = options.take("container").unwrap_or_else(|| "container".into());
            options.finish()?;
            let server = Azurite::start()?;
            server.create_container(&container)?;
            stay(&json!({
                "addr": server.addr().to_string(),
                "endpoint": server.endpoint(),
                "account": Azurite::ACCOUNT,
                "key": Azurite::KEY,
                "container": container,
            }))
        }
        "nginx" => {
            let root = options.take("root").ok_or("nginx needs --root")?;
            let on = |value: Option<String>| value.as_deref() == Some("yes");
            let choice = NginxOptions {
                tls: on(options.take("tls")),
                writable: on(options.take("writable")),
            };
            options.finish()?;
            let server = Nginx::start(Path::new(&root), &choice)?;
            let certificate = choice.tls.then(|| server.certificate().display().to_string());
            stay(&json!({
                "addr": server.addr().to_string(),
                "url": server.url(),
                "tls_url": server.tls_url(),
                "certificate": certificate,
            }))
        }
        "proxy" => {
            let (upstream, choice) = proxy_options(&mut options)?;
            options.finish()?;
            let proxy = Proxy::start(upstream, choice)?;
            stay(&json!({ "addr": proxy.addr().to_string(), "url": proxy.url() }))
        }
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => Err(format!("there is no command \"{other}\"\n\n{USAGE}").into()),
    }
}

fn proxy_options(options: &mut Options) -> Result<(std::net::SocketAddr, ProxyOptions), Error> {
    let upstream = options.take("upstream").ok_or("proxy needs --upstream")?;
    let mut choice = ProxyOptions::default();
    if let Some(listen) = options.take("listen") {
        let listen: std::net::SocketAddr = listen.parse()?;
        if !listen.ip().is_loopback() {
            return Err("--listen must be on 127.0.0.1".into());
        }
        choice.port = listen.port();
    }
    if let Some(text) = options.take("latency-ms") {
        choice.latency = Duration::from_secs_f64(text.parse::<f64>()?.max(0.0) / 1000.0);
    }
    if let Some(text) = options.take("bandwidth") {
        choice.connection_bandwidth = Some(text.parse()?);
    }
    if let Some(text) = options.take("total-bandwidth") {
        choice.total_bandwidth = Some(text.parse()?);
    }
    if let Some(text) = options.take("faults") {
        choice.faults = text.parse::<Faults>()?;
    }
    if let Some(text) = options.take("seed") {
        choice.faults = choice.faults.seed(text.parse()?);
    }
    Ok((upstream.parse()?, choice))
}

/// Prints where something is, and keeps it running.
fn stay(place: &Value) -> Result<(), Error> {
    println!("{place}");
    loop {
        std::thread::park();
    }
}

/// Options with a value each.
struct Options(HashMap<String, String>);

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = HashMap::new();
        for pair in args.chunks(2) {
            let name = pair.first().and_then(|name| name.strip_prefix("--")).ok_or(USAGE)?;
            let value = pair.get(1).ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name.to_owned(), value.clone());
        }
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn finish(&self) -> Result<(), Error> {
        match self.0.keys().next() {
            Some(name) => Err(format!("--{name} is not known\n\n{USAGE}").into()),
            None => Ok(()),
        }
    }
}
