//! Errors of `object_store` as errors of a store, without secrets.

use std::io;

use object_store::Error;
use shardine_store::{Key, StoreError};

use crate::place::chain;

/// What must not be in a message.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// What is shorter than this would be found everywhere.
const SHORT: usize = 4;

impl Secrets {
    /// Adds one, if there is one.
    pub fn add(&mut self, secret: Option<String>) {
        self.0.extend(secret.filter(|secret| secret.len() >= SHORT));
        // One may be a part of another.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Adds the values of options that are named like secrets.
    pub fn add_pairs<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        const NAMES: [&str; 6] = ["secret", "key", "token", "password", "sas", "credential"];
        let named = |name: &str| NAMES.iter().any(|part| name.contains(part));
        let found = pairs.filter(|(name, _)| named(name) && !name.ends_with("key_id"));
        found.for_each(|(_, value)| self.add(Some(value.to_owned())));
    }

    /// A text without them, and without the queries of URLs, which may hold signatures.
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

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// How long a message of a server may be; some answer with a page.
const LONGEST: usize = 600;

/// What went wrong with a request, as an error of the store.
pub(crate) fn failed(
    operation: &'static str,
    store: &str,
    key: &Key,
    secrets: &Secrets,
    error: &Error,
) -> StoreError {
    if let Error::NotFound { .. } = error {
        return StoreError::NotFound { key: key.clone(), store: store.to_owned() };
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
        _ => io::ErrorKind::Other,
    };
    let source = io::Error::new(kind, message);
    StoreError::Io { operation, path: format!("{store}/{key}"), source }
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
