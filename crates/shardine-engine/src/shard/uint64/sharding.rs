use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::murmur::murmur3_x86_128_low;

/// The name of the format.
const TYPE: &str = "neuroglancer_uint64_sharded_v1";

/// The most minishard bits supported: with more, every shard would start with a table of more than
/// a gigabyte.
const MAX_MINISHARD_BITS: u32 = 26;

/// What is wrong with a sharding specification.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("\"sharding\": {reason}")]
pub struct ShardingError {
    /// What is wrong.
    pub reason: String,
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, ShardingError> {
    Err(ShardingError { reason: reason.into() })
}

/// How keys are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHash {
    /// Not at all: neighbouring keys are in the same shard.
    #[default]
    Identity,
    /// MurmurHash3_x86_128.
    #[serde(rename = "murmurhash3_x86_128")]
    Murmur3X86_128,
}

impl KeyHash {
    /// Its name in the metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Murmur3X86_128 => "murmurhash3_x86_128",
        }
    }

    /// The hash with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Identity, Self::Murmur3X86_128].into_iter().find(|hash| hash.name() == name)
    }
}

/// How something in a shard is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Uncompressed.
    #[default]
    Raw,
    /// Compressed with gzip.
    Gzip,
}

impl Encoding {
    /// Its name in the metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Gzip => "gzip",
        }
    }

    /// The encoding with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Raw, Self::Gzip].into_iter().find(|encoding| encoding.name() == name)
    }
}

/// How keys are distributed over shards and minishards, and how these are stored.
///
/// ```
/// use shardine_engine::shard::uint64::Sharding;
/// let document = serde_json::json!({
///     "@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128",
///     "preshift_bits": 6, "minishard_bits": 11, "shard_bits": 7,
/// });
/// let sharding = Sharding::from_json(&document)?;
/// let place = sharding.place(1822975381);
/// assert_eq!((sharding.shard_name(place.shard), place.minishard), ("42.shard".to_owned(), 18));
/// # Ok::<(), shardine_engine::shard::uint64::ShardingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
#[non_exhaustive]
pub struct Sharding {
    /// Low bits of a key that do not affect its place.
    pub preshift_bits: u32,
    /// How keys are hashed.
    pub hash: KeyHash,
    /// The logarithm of the number of minishards in a shard.
    pub minishard_bits: u32,
    /// The logarithm of the number of shards.
    pub shard_bits: u32,
    /// How the indexes of minishards are stored.
    pub minishard_index_encoding: Encoding,
    /// How values are stored.
    pub data_encoding: Encoding,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPlace {
    /// Its shard.
    pub shard: u64,
    /// Its minishard in that shard.
    pub minishard: u64,
}

impl TryFrom<Value> for Sharding {
    type Error = ShardingError;

    fn try_from(document: Value) -> Result<Self, ShardingError> {
        Self::from_json(&document)
    }
}

impl From<Sharding> for Value {
    fn from(sharding: Sharding) -> Self {
        sharding.to_json()
    }
}

impl Sharding {
    /// Raw shards with unhashed keys.
    pub fn new(
        preshift_bits: u32,
        minishard_bits: u32,
        shard_bits: u32,
    ) -> Result<Self, ShardingError> {
        Self::of_bits(preshift_bits, minishard_bits, shard_bits).check()
    }

    /// The same, for bit counts known to be small enough.
    pub fn of_bits(preshift_bits: u32, minishard_bits: u32, shard_bits: u32) -> Self {
        Self {
            preshift_bits,
            hash: KeyHash::Identity,
            minishard_bits,
            shard_bits,
            minishard_index_encoding: Encoding::Raw,
            data_encoding: Encoding::Raw,
        }
    }

    /// Sets the hash.
    pub fn hash(self, hash: KeyHash) -> Self {
        Self { hash, ..self }
    }

    /// Sets the encoding of minishard indexes.
    pub fn minishard_index_encoding(self, encoding: Encoding) -> Self {
        Self { minishard_index_encoding: encoding, ..self }
    }

    /// Sets the encoding of values.
    pub fn data_encoding(self, encoding: Encoding) -> Self {
        Self { data_encoding: encoding, ..self }
    }

    fn check(self) -> Result<Self, ShardingError> {
        for (name, bits) in [
            ("preshift_bits", self.preshift_bits),
            ("minishard_bits", self.minishard_bits),
            ("shard_bits", self.shard_bits),
        ] {
            if bits > 64 {
                return refuse(format!("\"{name}\" is {bits}; a key has 64 bits"));
            }
        }
        if self.minishard_bits > MAX_MINISHARD_BITS {
            return refuse(format!(
                "\"minishard_bits\" is {}: every shard would begin with a table of {} GiB; at \
                 most {MAX_MINISHARD_BITS} are supported",
                self.minishard_bits,
                1u128 << (self.minishard_bits + 4 - 30).min(100),
            ));
        }
        Ok(self)
    }

    /// Parses the JSON form. Missing encodings are raw.
    pub fn from_json(document: &Value) -> Result<Self, ShardingError> {
        let Some(members) = document.as_object() else { return refuse("is not an object") };
        match members.get("@type") {
            Some(Value::String(name)) if name == TYPE => {}
            Some(other) => return refuse(format!("\"@type\" is {other}, not \"{TYPE}\"")),
            None => return refuse("\"@type\" is missing"),
        }
        let sharding = Self {
            preshift_bits: bits(members, "preshift_bits")?,
            hash: named(members, "hash", None, KeyHash::from_name)?,
            minishard_bits: bits(members, "minishard_bits")?,
            shard_bits: bits(members, "shard_bits")?,
            minishard_index_encoding: encoding(members, "minishard_index_encoding")?,
            data_encoding: encoding(members, "data_encoding")?,
        };
        sharding.check()
    }

    /// The JSON form.
    pub fn to_json(&self) -> Value {
        json!({
            "@type": TYPE,
            "preshift_bits": self.preshift_bits,
            "hash": self.hash.name(),
            "minishard_bits": self.minishard_bits,
            "shard_bits": self.shard_bits,
            "minishard_index_encoding": self.minishard_index_encoding.name(),
            "data_encoding": self.data_encoding.name(),
        })
    }

    /// Where a key is.
    pub fn place(&self, key: u64) -> KeyPlace {
        let shifted = shift_right(key, self.preshift_bits);
        let hash = match self.hash {
            KeyHash::Identity => shifted,
            KeyHash::Murmur3X86_128 => murmur3_x86_128_low(shifted),
        };
        KeyPlace {
            minishard: low_bits(hash, self.minishard_bits),
            shard: low_bits(shift_right(hash, self.minishard_bits), self.shard_bits),
        }
    }

    /// The number of minishards in a shard.
    pub fn minishards(&self) -> u64 {
        1 << self.minishard_bits
    }

    /// Bytes of the table at the start of each shard.
    pub fn table_len(&self) -> u64 {
        self.minishards() * 16
    }

    /// The name of a shard's object, without the folder.
    pub fn shard_name(&self, shard: u64) -> String {
        format!("{}.shard", self.shard_stem(shard))
    }

    /// The name of a shard without its extension: in the older form a shard was two objects, with
    /// the extensions `.index` and `.data`.
    pub fn shard_stem(&self, shard: u64) -> String {
        let digits = self.shard_bits.div_ceil(4) as usize;
        format!("{shard:0digits$x}")
    }

    /// The number of the shard whose object has this name (without folder and extension); `None` if
    /// there is none.
    pub fn shard_number(&self, stem: &str) -> Option<u64> {
        let number = u64::from_str_radix(stem, 16).ok()?;
        let inside = low_bits(number, self.shard_bits) == number;
        // Each number has only one spelling.
        (inside && self.shard_stem(number) == stem).then_some(number)
    }
}

/// `value >> bits`; a shift by 64 bits gives 0.
fn shift_right(value: u64, bits: u32) -> u64 {
    value.checked_shr(bits).unwrap_or(0)
}

fn low_bits(value: u64, bits: u32) -> u64 {
    value & 1u64.checked_shl(bits).map_or(u64::MAX, |next| next - 1)
}

fn bits(members: &Map<String, Value>, name: &str) -> Result<u32, ShardingError> {
    match members.get(name) {
        Some(value) => match value.as_u64().and_then(|bits| u32::try_from(bits).ok()) {
            Some(bits) => Ok(bits),
            None => refuse(format!("\"{name}\" is {value}, not a number of bits")),
        },
        None => refuse(format!("\"{name}\" is missing")),
    }
}

fn encoding(members: &Map<String, Value>, name: &str) -> Result<Encoding, ShardingError> {
    named(members, name, Some(Encoding::Raw), Encoding::from_name)
}

fn named<T>(
    members: &Map<String, Value>,
    name: &str,
    absent: Option<T>,
    from_name: impl Fn(&str) -> Option<T>,
) -> Result<T, ShardingError> {
    let Some(value) = members.get(name) else {
        return absent.map_or_else(|| refuse(format!("\"{name}\" is missing")), Ok);
    };
    match value.as_str().and_then(from_name) {
        Some(found) => Ok(found),
        None => refuse(format!("\"{name}\" is {value}, which is not supported")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_place_and_name() {
        let hashed = Sharding::new(6, 11, 7).unwrap().hash(KeyHash::Murmur3X86_128);
        let place = hashed.place(1_822_975_381);
        assert_eq!((hashed.shard_name(place.shard).as_str(), place.minishard), ("42.shard", 18));
    }

    #[test]
    fn shifts_by_all_bits_leave_nothing() {
        let sharding = Sharding::new(64, 3, 5).unwrap();
        assert_eq!(sharding.place(u64::MAX), KeyPlace { shard: 0, minishard: 0 });
        let sharding = Sharding::new(0, 0, 64).unwrap();
        assert_eq!(sharding.place(u64::MAX), KeyPlace { shard: u64::MAX, minishard: 0 });
        assert_eq!(sharding.shard_name(10), "000000000000000a.shard");
    }

    #[test]
    fn names_are_read_back_and_others_are_not() {
        let sharding = Sharding::new(0, 0, 5).unwrap();
        assert_eq!(sharding.shard_number("1f"), Some(31));
        for stem in ["20", "1F", "f", "+f", "", "00f", "x"] {
            assert_eq!(sharding.shard_number(stem), None, "{stem}");
        }
        assert_eq!(Sharding::new(0, 0, 0).unwrap().shard_number("0"), Some(0));
    }

    #[test]
    fn what_is_not_a_sharding_is_refused_by_name() {
        let good = Sharding::new(1, 2, 3).unwrap().to_json();
        for (member, value, said) in [
            ("@type", json!("neuroglancer_uint64_sharded_v2"), "@type"),
            ("hash", json!("identity_hash"), "hash"),
            ("preshift_bits", json!(65), "preshift_bits"),
            ("minishard_bits", json!(64), "minishard_bits"),
            ("shard_bits", json!(-1), "shard_bits"),
            ("data_encoding", json!("zstd"), "data_encoding"),
        ] {
            let mut document = good.clone();
            document[member] = value;
            let error = Sharding::from_json(&document).unwrap_err();
            assert!(error.reason.contains(said), "{error}");
        }
        assert_eq!(Sharding::from_json(&good).unwrap().to_json(), good);
    }
}
