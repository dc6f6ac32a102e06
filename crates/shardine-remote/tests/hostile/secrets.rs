//! No message contains secrets, whatever fails.

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_store::{Condition, ReadRange, Store as _, StoreExt as _};
use shardine_testbed::Azurite;

use super::common::{BUCKET, azurite, seaweed};
use super::server::{Server, answer};
use super::{key, pattern, shown, within};

/// It looks different in a URL, and different again when parsed.
const SECRET: &str = "Xy/7+zQ=w:v@u%r";

/// All forms in which a secret could appear.
fn forms(secret: &str) -> Vec<String> {
    let encode = |keep: &[u8]| -> String {
        secret
            .bytes()
            .map(|b| {
                let plain = b.is_ascii_alphanumeric() || keep.contains(&b);
                if plain { char::from(b).to_string() } else { format!("%{b:02X}") }
            })
            .collect()
    };
    let mut all =
        vec![secret.to_owned(), encode(b""), encode(b"/"), encode(b"=+"), encode(b":/+=%")];
    all.extend([format!("{secret:?}"), secret.escape_default().to_string()]);
    all
}

fn clean(what: &str, text: &str, secret: &str) {
    for form in forms(secret) {
        assert!(!text.contains(&form), "{what}: {form} is in: {text}");
    }
}

/// Tries everything with a store that cannot do anything, and checks all that is shown.
fn tried(url: &str, options: &StoreOptions, secret: &str) {
    clean("options", &format!("{options:?}"), secret);
    let store = match RemoteStore::new(url, options) {
        Ok(store) => store,
        Err(error) => return clean("new", &shown(&error), secret),
    };
    clean("store", &format!("{store:?} {}", store.name()), secret);
    let object = store.open(&key("o"), None).unwrap();
    clean("object", &format!("{object:?}"), secret);
    let mut errors = Vec::new();
    errors.extend(object.read(ReadRange::All).err());
    errors.extend(object.read(ReadRange::Suffix(5)).err());
    errors.extend(object.read(ReadRange::Bounded(5..5)).err());
    errors.extend(store.list(None).err());
    errors.extend(store.edit(&key("o")).err());
    errors.extend(store.delete(&key("o"), &Condition::None).err());
    errors.extend(store.put(&key("o"), b"x", Condition::None).err());
    errors.extend(store.put(&key("o"), b"x", Condition::Absent).err());
    errors.extend(store.put(&key("o"), &pattern(6 << 20, 1), Condition::None).err());
    assert!(errors.len() >= 8, "all of it was to fail");
    for error in errors {
        clean("error", &shown(&error), secret);
    }
}

fn quick() -> StoreOptions {
    StoreOptions::new()
        .with("max_retries", "0")
        .with("retry_timeout", "1")
        .with("read_timeout", "2")
        .with("part_size", "5242880")
}

fn s3(endpoint: &str) -> StoreOptions {
    quick()
        .with("aws_endpoint", endpoint)
        .with("aws_access_key_id", "testkey")
        .with("aws_secret_access_key", SECRET)
        .with("aws_region", "us-east-1")
}

/// A server that fails in many ways, one after the other, and repeats everything it received.
fn chatty() -> Server {
    Server::start(|request, stream| {
        let text = format!("{request:?}");
        let status =
            ["403 Forbidden", "500 Oh", "400 Bad", "302 Found", "418 No"][request.number % 5];
        let headers = [("Location", "/elsewhere")];
        std::io::Write::write_all(
            stream,
            &answer(status, &headers[..usize::from(status.starts_with('3'))], text.as_bytes()),
        )
    })
}

#[test]
fn of_s3() {
    within(60, || {
        tried(&format!("s3://{BUCKET}/x"), &s3(&seaweed().endpoint()), SECRET);
        let token = s3(&chatty().url()).with("aws_session_token", "tok/en+abc=");
        tried("s3://bucket/x", &token, SECRET);
        tried("s3://bucket/x", &token, "tok/en+abc=");
        tried("s3://bucket/x", &s3("http://127.0.0.1:1"), SECRET);
    });
}

#[test]
fn of_azure() {
    within(60, || {
        let account = || {
            quick()
                .with("azure_storage_account_name", Azurite::ACCOUNT)
                .with("azure_storage_endpoint", &azurite().endpoint())
        };
        let key = "c2VjcmV0IG9mIG5vYm9keSBhdCBhbGwhIQ==";
        let url = format!("az://{BUCKET}/x");
        tried(&url, &account().with("azure_storage_account_key", key), key);
        let broken = "not base64 at all, +/ a secret";
        tried(&url, &account().with("azure_storage_account_key", broken), broken);
        let signature = "abc%2Fdef%2Bghi%3D";
        let sas = format!("sv=2021-08-06&ss=b&srt=co&sp=rwdl&se=2030-01-01&sig={signature}");
        for name in ["azure_storage_sas_token", "azure_storage_sas_key", "sas_token"] {
            for endpoint in [azurite().endpoint(), format!("{}/acc", chatty().url())] {
                let options = quick()
                    .with("azure_storage_account_name", Azurite::ACCOUNT)
                    .with("azure_storage_endpoint", &endpoint)
                    .with(name, &sas);
                tried(&url, &options, signature);
                tried(&url, &options, "abc/def+ghi=");
            }
        }
    });
}

#[test]
fn of_urls() {
    within(60, || {
        let plain = "pass0123word";
        let server = chatty();
        let addr = server.addr;
        for (secret, written) in [
            (plain, plain),
            ("pa/ss:wo@rd", "pa%2Fss%3Awo%40rd"),
            // As written by people who do not know better.
            ("pa/ss-word", "pa/ss-word"),
            ("pa?ss-word", "pa?ss-word"),
            ("pa#ss-word", "pa#ss-word"),
            ("pa@ss-word", "pa@ss-word"),
            ("pa ss-word", "pa ss-word"),
        ] {
            for host in
                [addr.to_string(), "127.0.0.1:1".into(), "127.0.0.1:99999".into(), "ho st".into()]
            {
                for scheme in ["http", "https", "s3", "gs", "az", "nonsense"] {
                    let options = if scheme == "gs" {
                        quick().with("google_skip_signature", "true")
                    } else {
                        quick()
                    };
                    let url = format!("{scheme}://user:{written}@{host}/data");
                    if let Err(error) = RemoteStore::new(&url, &options) {
                        clean(&url, &shown(&error), secret);
                        clean(&url, &shown(&error), written);
                        continue;
                    }
                    assert!(scheme.starts_with("http"), "{url} has no bucket that could exist");
                    let store = RemoteStore::new(&url, &options).unwrap();
                    let error = store.get(&key("o")).unwrap_err();
                    for text in [format!("{store:?} {}", store.name()), shown(&error)] {
                        clean(&url, &text, secret);
                        clean(&url, &text, written);
                    }
                }
            }
        }
        let signed = format!("http://{addr}/data?X-Amz-Signature={plain}");
        let error = RemoteStore::new(&signed, &quick()).unwrap_err();
        clean("a signed URL", &shown(&error), plain);
        let error = RemoteStore::new(&format!("s3://bucket/data?token={plain}"), &quick());
        clean("a query", &shown(&error.unwrap_err()), plain);
    });
}

#[test]
fn of_proxies_and_endpoints() {
    within(60, || {
        let secret = "pass0123word";
        let server = chatty();
        for host in ["127.0.0.1:1", "127.0.0.1:99999", &server.addr.to_string()] {
            let at = format!("http://user:{secret}@{host}");
            tried("http://127.0.0.1:2/x", &quick().with("proxy_url", &at), secret);
            tried("s3://bucket/x", &s3("http://127.0.0.1:2").with("proxy_url", &at), secret);
            tried("s3://bucket/x", &s3(&at), secret);
        }
    });
}

#[test]
fn of_options_with_wrong_names_and_values() {
    let secret = "pass0123word";
    for (url, name) in [
        ("s3://b/x", "aws_secret_acess_key"),
        ("gs://b/x", "google_service_account_key"),
        ("az://b/x", "azure_storage_account_key"),
        ("az://b/x", "azure_storage_client_secret"),
        ("http://h/x", "aws_secret_access_key"),
        ("http://h/x", "timeout"),
        ("s3://b/x", "requests"),
        ("s3://b/x", "part_size"),
    ] {
        let options = quick().with(name, secret);
        clean(name, &format!("{options:?}"), secret);
        if let Err(error) = RemoteStore::new(url, &options) {
            clean(name, &shown(&error), secret);
        }
    }
}
