//! Turns errors of `object_store` into store errors, without secrets.

use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use shardine_store::{Key, StoreError};

use crate::credentials::NoCredentials;
use crate::place::{chain, user_of};

/// Texts that must not appear in a message.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// Anything shorter would be found everywhere.
const SHORT: usize = 4;

impl Secrets {
    /// Adds a secret, if there is one, in URL-encoded form as well.
    pub fn add(&mut self, secret: Option<&str>) {
        let Some(secret) = secret else { return };
        let decoded = decoded(secret);
        for plain in [secret, &decoded] {
            let encoded: String = url::form_urlencoded::byte_serialize(plain.as_bytes()).collect();
            let in_path = encoded.replace('+', "%20").replace("%2F", "/");
            self.0.extend([plain.to_owned(), encoded, in_path]);
        }
        // The signature of a signed query on its own, too.
        for pair in secret.trim_start_matches('?').split('&') {
            if let Some(("sig", signature)) = pair.split_once('=') {
                self.add(Some(signature));
            }
        }
        self.0.retain(|secret| secret.len() >= SHORT);
        // Longest first, since one may be a part of another.
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
    }

    /// Adds the password in a URL, if there is one.
    pub fn add_password(&mut self, url: &str) {
        self.add(user_of(url).and_then(|user| user.split_once(':')).map(|(_, password)| password));
    }

    /// Adds the values of options that are named like secrets.
    pub fn add_pairs<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, value) in pairs {
            self.add_password(value);
            if is_named_like_secret(name) && !name.ends_with("key_id") {
                self.add(Some(value));
            }
        }
    }

    /// The text without the secrets, and without the queries of URLs, which may contain signatures.
    pub fn hide(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        for (i, word) in text.split(' ').enumerate() {
            if i > 0 {
                hidden.push(' ');
            }
            match (word.find("://"), word.find('?')) {
                (Some(scheme), Some(query)) if scheme < query => {
                    hidden.push_str(&word[..query]);
                }
                _ => hidden.push_str(word),
            }
        }
        for secret in &self.0 {
            hidden = hidden.replace(secret.as_str(), "[hidden]");
        }
        hidden
    }
}

fn is_named_like_secret(name: &str) -> bool {
    const NAMES: [&str; 6] = ["secret", "key", "token", "password", "sas", "credential"];
    NAMES.iter().any(|part| name.contains(part))
}

/// Whether the value of an option with this name is a secret, rather than where one is found, which
/// one is used, or whether one is used.
pub(crate) fn names_secret(name: &str) -> bool {
    const ABOUT: [&str; 7] =
        ["key_id", "_file", "_uri", "_url", "_type", "_enabled", "application_credentials"];
    is_named_like_secret(name) && !ABOUT.iter().any(|end| name.ends_with(end))
}

/// Decodes the escapes of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, left) = match byte {
            Some(byte) if *first == b'%' => (byte, others.get(2..).unwrap_or_default()),
            _ => (*first, others),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// The maximum length of a server's message; some answer with a whole page.
const LONGEST: usize = 600;

/// Turns a failed request into a store error.
pub(crate) fn failed(
    operation: &'static str,
    store: &str,
    key: &Key,
    secrets: &Secrets,
    error: &Error,
) -> StoreError {
    // What is missing during a write is a bucket or an upload, not the object.
    if let Error::NotFound { .. } = error
        && ["read", "look for"].contains(&operation)
    {
        return StoreError::NotFound { key: key.clone(), store: store.to_owned() };
    }
    let source = cause(secrets, error);
    StoreError::Io { operation, path: format!("{store}/{key}"), source }
}

/// What went wrong with a request, without secrets.
pub(crate) fn cause(secrets: &Secrets, error: &Error) -> io::Error {
    if let Some(refused) = NoCredentials::within(error) {
        return io::Error::new(io::ErrorKind::PermissionDenied, refused);
    }
    let mut message = secrets.hide(&chain(error));
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push_str(" ...");
    }
    let kind = match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => io::ErrorKind::Unsupported,
        error if is_unconnected(error) => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, message)
}

/// Whether there was no connection to the server.
fn is_unconnected(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return http.kind() == HttpErrorKind::Connect;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_queries_are_hidden() {
        let mut secrets = Secrets::default();
        let pairs = [
            ("aws_secret_access_key", "wJalr/xyz"),
            ("aws_access_key_id", "AKIAVISIBLE"),
            ("region", "eu-west-1"),
            ("azure_storage_account_key", "short"),
            ("token", "abc"),
        ];
        secrets.add_pairs(pairs.into_iter());
        let text =
            "GET https://h/a?sig=12 of AKIAVISIBLE failed in eu-west-1: wJalr/xyz, short, abc?";
        let hidden = "GET https://h/a of AKIAVISIBLE failed in eu-west-1: [hidden], [hidden], abc?";
        assert_eq!(secrets.hide(text), hidden);
        assert!(!format!("{secrets:?}").contains("wJalr"));
    }
}
