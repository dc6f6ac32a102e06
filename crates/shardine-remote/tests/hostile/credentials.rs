//! Where credentials come from, and what happens without any.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_store::{Store as _, StoreError, StoreExt as _};

use super::server::{Server, answer};
use super::{key, told, within};

/// Where a metadata service would be, and how many have connected to it.
fn metadata_service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream.write_all(&answer("404 Not Found", &[], b"")));
        }
    });
    (url, count)
}

/// Runs one test of this binary in a process without an environment but this.
fn in_clean_child(test: &str, environment: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("credentials::{test}"), "--exact", "--ignored", "--nocapture"])
        .env_clear()
        .env("HOME", "/nonexistent")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "there is no test {test}");
}

/// What is said of a request without credentials, as quickly as it must be said.
fn refusal(url: &str, options: &StoreOptions) -> [StoreError; 2] {
    let store = RemoteStore::new(url, options).unwrap();
    let start = Instant::now();
    let errors = [store.get(&key("zarr.json")).unwrap_err(), store.list(None).unwrap_err()];
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    errors
}

/// The three clouds, with their metadata services at an address.
fn clouds(service: &str) -> [(&'static str, StoreOptions, &'static str); 3] {
    let azure = StoreOptions::new()
        .with("azure_storage_account_name", "account")
        .with("azure_msi_endpoint", service);
    [
        (
            "s3://bucket/x",
            StoreOptions::new().with("aws_metadata_endpoint", service),
            "AWS_ACCESS_KEY_ID",
        ),
        // Its address comes from GCE_METADATA_HOST and the like alone.
        ("gs://bucket/x", StoreOptions::new(), "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/x", azure, "AZURE_STORAGE_ACCOUNT_KEY"),
    ]
}

/// The environment variables that say where Google's metadata service is.
fn google(service: &str) -> [(&str, &str); 2] {
    let host = service.trim_start_matches("http://");
    [("GCE_METADATA_HOST", host), ("GCE_METADATA_IP", host)]
}

#[test]
fn no_metadata_service_is_asked_unless_that_was_configured() {
    let (service, asked) = metadata_service();
    let mut environment = vec![("METADATA", service.as_str())];
    environment.extend(google(&service));
    in_clean_child("without_credentials", &environment);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
#[ignore = "run by the test above, with an environment of its own"]
fn without_credentials() {
    let Some(service) = told("METADATA") else { return };
    for (url, options, variable) in clouds(&service) {
        for error in refusal(url, &options) {
            let text = error.to_string();
            assert!(text.contains("there are no credentials for"), "{text}");
            assert!(text.contains(variable) && text.contains(url), "{text}");
            let StoreError::Io { source, .. } = error else { panic!("{error}") };
            assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
        }
    }
}

#[test]
fn a_metadata_service_is_asked_if_that_was_configured() {
    for by_environment in [false, true] {
        let (service, asked) = metadata_service();
        let mut environment = vec![("METADATA", service.as_str())];
        environment.extend(google(&service));
        if by_environment {
            environment.push(("SHARDINE_INSTANCE_CREDENTIALS", "true"));
        }
        in_clean_child("with_instance_credentials", &environment);
        assert!(asked.load(Ordering::SeqCst) >= 3);
    }
}

#[test]
#[ignore = "run by the test above, with an environment of its own"]
fn with_instance_credentials() {
    let Some(service) = told("METADATA") else { return };
    let by_environment = told("SHARDINE_INSTANCE_CREDENTIALS").is_some();
    for (url, mut options, _) in clouds(&service) {
        if !by_environment {
            options = options.with("instance_credentials", "true");
        }
        for error in refusal(url, &options.with("max_retries", "0")) {
            let text = error.to_string();
            assert!(!text.contains("there are no credentials for"), "{text}");
        }
    }
    // One of Azure's own settings says the same, and the word of an option goes first.
    let (_, azure, _) = &clouds(&service)[2];
    let managed = azure.clone().with("azure_credential_type", "managed_identity");
    let managed = managed.with("max_retries", "0").with("instance_credentials", "false");
    for error in refusal("az://container/x", &managed) {
        assert!(!error.to_string().contains("there are no credentials for"), "{error}");
    }
    let (_, s3, _) = &clouds(&service)[0];
    for error in refusal("s3://bucket/x", &s3.clone().with("instance_credentials", "false")) {
        assert!(error.to_string().contains("there are no credentials for"), "{error}");
    }
    let unknown = StoreOptions::new().with("instance_credentials", "perhaps");
    assert!(RemoteStore::new("s3://bucket/x", &unknown).is_err());
}

/// A store that answers all that is asked, and what it was asked with.
fn store() -> (Server, Arc<Mutex<Vec<Option<String>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let server = Server::start(move |request, stream| {
        record.lock().unwrap().push(request.header("authorization").map(str::to_owned));
        let headers = [("ETag", "\"1\""), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")];
        stream.write_all(&answer("200 OK", &headers, b"value"))
    });
    (server, seen)
}

#[test]
fn anonymous_requests_are_not_signed_whatever_credentials_there_are() {
    within(60, || {
        let (server, seen) = store();
        let endpoint = server.url();
        let s3 = StoreOptions::new().with("aws_endpoint", &endpoint).with("aws_region", "a");
        let half = s3.clone().with("aws_access_key_id", "testkey");
        let whole = half.clone().with("aws_secret_access_key", "testsecret");
        let google = StoreOptions::new()
            .with("google_base_url", &endpoint)
            .with("allow_http", "true")
            .with("google_application_credentials", "/nonexistent/key.json");
        let azure = StoreOptions::new()
            .with("azure_storage_account_name", "account")
            .with("azure_storage_account_key", "c2VjcmV0")
            .with("azure_storage_endpoint", &endpoint);
        for (url, options) in [
            ("s3://bucket/x", &s3),
            ("s3://bucket/x", &half),
            ("s3://bucket/x", &whole),
            ("gs://bucket/x", &google),
            ("az://container/x", &azure),
            ("http://", &StoreOptions::new()),
        ] {
            let url = if url == "http://" { &endpoint } else { url };
            let store = RemoteStore::new(url, &options.clone().anonymous()).unwrap();
            assert_eq!(store.get(&key("o")).unwrap().unwrap().to_vec(), b"value", "{url}");
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(!seen.is_empty() && seen.iter().all(Option::is_none), "{url}: {seen:?}");
        }
        for (url, options) in [("s3://bucket/x", &whole), ("az://container/x", &azure)] {
            let store = RemoteStore::new(url, &options.clone().with("anonymous", "false")).unwrap();
            store.get(&key("o")).unwrap();
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(seen.iter().all(Option::is_some), "{url}: {seen:?}");
        }
    });
}

#[test]
fn credentials_of_a_container_are_asked_for_as_its_environment_says() {
    let server = Server::start(|request, stream| {
        if request.path() == "/credentials" {
            assert_eq!(request.header("authorization"), Some("a token"));
            let text = r#"{"AccessKeyId": "containerkey", "SecretAccessKey": "s", "Token": "t",
                           "Expiration": "2999-01-01T00:00:00Z"}"#;
            return stream.write_all(&answer("200 OK", &[], text.as_bytes()));
        }
        let signed = request.header("authorization").unwrap_or_default();
        let status = if signed.contains("containerkey") { "200 OK" } else { "403 Forbidden" };
        let headers = [("ETag", "\"1\""), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")];
        stream.write_all(&answer(status, &headers, b"value"))
    });
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a token").unwrap();
    let environment = [
        ("STORE", server.url()),
        ("AWS_ENDPOINT", server.url()),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/credentials", server.url())),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    in_clean_child("in_a_container", &environment);
}

#[test]
#[ignore = "run by the test above, with an environment of its own"]
fn in_a_container() {
    if told("STORE").is_none() {
        return;
    }
    let store = RemoteStore::new("s3://bucket/x", &StoreOptions::new()).unwrap();
    assert_eq!(store.get(&key("o")).unwrap().unwrap().to_vec(), b"value");
}
