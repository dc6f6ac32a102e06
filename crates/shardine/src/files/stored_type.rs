//! Maps between the types of arrays and those of `.npy` files.

use serde_json::{Value, json};
use shardine_codec::{DataType, ElementSize, Kind};

use super::Descr;
use super::cast::{Cast, Number};

/// How the elements of a file become elements of the array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Conversion {
    /// The bytes are the same.
    None,
    /// Only the byte order differs.
    Swap,
    /// They are numbers of another type.
    Cast(Cast),
}

/// The name under which elements of this type go into a `.npy` file, and whether it is only a view
/// of their bytes.
///
/// `None` for variable-length types, which such a file cannot hold.
pub fn npy_descr(data_type: &DataType) -> Option<(String, bool)> {
    if let Some(descr) = data_type.numpy_descr() {
        return Some((descr, false));
    }
    let ElementSize::Fixed(size) = data_type.size() else { return None };
    Some(match (data_type.kind(), size) {
        // Narrow integers take a byte each, which then has the number's own value.
        (Kind::Int, 1) => ("|i1".to_owned(), true),
        (Kind::UInt | Kind::SmallFloat, 1) => ("|u1".to_owned(), true),
        (Kind::SmallFloat, 2) => ("<u2".to_owned(), true),
        _ => (format!("|V{size}"), true),
    })
}

/// The type of an array for the elements of a `.npy` file; `None` if there is none.
///
/// It has no byte order: that of the file is swapped where needed.
pub fn type_of_npy(descr: &Descr) -> Option<DataType> {
    let json = json_of(descr)?;
    let data_type = DataType::from_json(&json).ok()?;
    // A type that does not round-trip was not understood.
    conversion(descr, &data_type, false).is_ok().then_some(data_type)
}

/// Recursion is bounded by the nesting of the literal in the file.
fn json_of(descr: &Descr) -> Option<Value> {
    match descr {
        Descr::Plain(name) => {
            DataType::from_numpy(split_order(name).1).map(|found| found.to_json())
        }
        Descr::Fields(fields) => {
            let fields = fields
                .iter()
                .map(|(name, descr)| Some(json!({ "name": name, "data_type": json_of(descr)? })));
            let fields = fields.collect::<Option<Vec<_>>>()?;
            Some(json!({ "name": "struct", "configuration": { "fields": fields } }))
        }
    }
}

/// Why the elements of a file cannot go into an array.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeError {
    /// They are numbers of another type, and conversion was not allowed.
    #[error("the file holds {found}, but the array holds {wanted}")]
    Uncast {
        /// numpy's name of the type in the file.
        found: String,
        /// The type of the array.
        wanted: String,
    },
    /// They are of another type, and at least one of the two is not numeric.
    #[error("the file holds {found}, but the array holds {wanted}")]
    Differs {
        /// numpy's name of the type in the file.
        found: String,
        /// The type of the array.
        wanted: String,
    },
    /// Conversion was requested, but at least one of the two types is not numeric.
    #[error(
        "the file holds {found} and the array {wanted}; only bool, integers and float16, float32, \
         float64 can be converted"
    )]
    NoNumbers {
        /// numpy's name of the type in the file.
        found: String,
        /// The type of the array.
        wanted: String,
    },
}

/// How elements of a `.npy` file go into an array of this type; the error says why they cannot.
pub(crate) fn conversion(
    descr: &Descr,
    data_type: &DataType,
    cast: bool,
) -> Result<Conversion, TypeError> {
    let (found, wanted) = (descr.to_string(), data_type.name().to_string());
    if let Some(order) = order_of(descr, data_type) {
        return Ok(match order {
            Order::Little => Conversion::None,
            Order::Big => Conversion::Swap,
        });
    }
    let numbers = match descr {
        Descr::Plain(name) => Number::from_numpy(name),
        Descr::Fields(_) => None,
    };
    match (numbers, Number::of(data_type)) {
        (Some(from), Some(to)) if cast => Ok(Conversion::Cast(Cast { from, to })),
        (Some(_), Some(_)) => Err(TypeError::Uncast { found, wanted }),
        _ if cast => Err(TypeError::NoNumbers { found, wanted }),
        _ => Err(TypeError::Differs { found, wanted }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// The byte order of the file, if its type otherwise equals the array's.
fn order_of(descr: &Descr, data_type: &DataType) -> Option<Order> {
    let (own, view) = npy_descr(data_type)?;
    let own = Descr::parse(&own).ok()?;
    let mut orders = Vec::new();
    let mut same = is_same(descr, &own, &mut orders);
    // Types that numpy lacks also come as opaque bytes, which is how its extensions save them.
    if !same
        && view
        && let ElementSize::Fixed(size) = data_type.size()
    {
        same = is_same(descr, &Descr::Plain(format!("|V{size}")), &mut orders);
    }
    if !same {
        return None;
    }
    match &orders[..] {
        [] => Some(Order::Little),
        [first, rest @ ..] => rest.iter().all(|order| order == first).then_some(*first),
    }
}

/// Whether two types differ at most in byte order; collects the byte orders of the first one's
/// multi-byte parts.
fn is_same(file: &Descr, own: &Descr, orders: &mut Vec<Order>) -> bool {
    match (file, own) {
        (Descr::Plain(file), Descr::Plain(own)) => {
            let (order, name) = split_order(file);
            if name != split_order(own).1 {
                return false;
            }
            let single = matches!(name, "b1" | "i1" | "u1") || name.starts_with(['S', 'V']);
            if !single {
                orders.push(order);
            }
            true
        }
        (Descr::Fields(file), Descr::Fields(own)) => {
            file.len() == own.len()
                && file.iter().zip(own).all(|((name, file), (own_name, own))| {
                    name == own_name && is_same(file, own, orders)
                })
        }
        _ => false,
    }
}

fn split_order(name: &str) -> (Order, &str) {
    match name.strip_prefix('>') {
        Some(rest) => (Order::Big, rest),
        None => (Order::Little, name.strip_prefix(['<', '|', '=']).unwrap_or(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_type(name: &str) -> DataType {
        DataType::parse_name(name).unwrap()
    }

    fn converted(descr: &str, name: &str, cast: bool) -> Result<Conversion, TypeError> {
        conversion(&Descr::parse(descr).unwrap(), &data_type(name), cast)
    }

    #[test]
    fn only_the_byte_order_may_differ() {
        assert_eq!(converted("<u2", "uint16", false), Ok(Conversion::None));
        assert_eq!(converted("=u2", "uint16", false), Ok(Conversion::None));
        assert_eq!(converted(">u2", "uint16", false), Ok(Conversion::Swap));
        assert_eq!(converted(">u1", "uint8", false), Ok(Conversion::None));
        assert_eq!(converted(">M8[ns]", "numpy.datetime64[ns]", false), Ok(Conversion::Swap));
        let error = converted("<i2", "uint16", false).unwrap_err();
        let [found, wanted] = ["<i2", "uint16"].map(str::to_owned);
        assert_eq!(error, TypeError::Uncast { found, wanted });
        assert!(converted("<M8[s]", "numpy.datetime64[ns]", true).is_err());
        assert!(converted("|O", "uint16", true).is_err());
    }

    #[test]
    fn a_cast_is_made_when_it_is_allowed() {
        let Ok(Conversion::Cast(cast)) = converted(">i2", "float32", true) else {
            panic!("it is a cast");
        };
        assert_eq!(Some(cast.from), Number::from_numpy(">i2"));
        assert_eq!(Some(cast.to), Number::from_numpy("<f4"));
    }

    #[test]
    fn types_that_numpy_lacks_are_views_of_their_bytes() {
        for (name, descr) in [
            ("bfloat16", "<u2"),
            ("float8_e5m2", "|u1"),
            ("int4", "|i1"),
            ("uint2", "|u1"),
            ("complex_bfloat16", "|V4"),
        ] {
            let data_type = data_type(name);
            assert_eq!(npy_descr(&data_type), Some((descr.to_owned(), true)), "{name}");
            assert_eq!(converted(descr, name, false), Ok(Conversion::None));
        }
        assert_eq!(converted("<V2", "bfloat16", false), Ok(Conversion::None));
        assert_eq!(npy_descr(&data_type("string")), None);
    }

    #[test]
    fn a_file_says_what_type_an_array_needs() {
        for (descr, name) in [
            ("|b1", "bool"),
            (">i2", "int16"),
            ("<u8", "uint64"),
            ("<f2", "float16"),
            (">c16", "complex128"),
            ("<M8[ns]", "numpy.datetime64"),
            ("<m8[25s]", "numpy.timedelta64"),
            ("<M8", "numpy.datetime64"),
            ("|S5", "null_terminated_bytes"),
            (">U3", "fixed_length_utf32"),
            ("|V7", "raw_bytes"),
            ("[('a', '<u2'), ('b', [('c', '<f4')])]", "struct"),
        ] {
            let found = type_of_npy(&Descr::parse(descr).unwrap()).unwrap();
            assert!(found.name().starts_with(name), "{descr}: {}", found.name());
            let own = npy_descr(&found).unwrap().0;
            assert_eq!(own.replace('<', ""), descr.replace(['<', '>'], ""));
        }
        for descr in ["|O", "<i3", "<f16", "|S0", "x", "", "é", "[('a', '<u2'), ('b', '>u2')]"] {
            assert!(type_of_npy(&Descr::parse(descr).unwrap()).is_none(), "{descr}");
        }
    }

    #[test]
    fn fields_have_one_byte_order() {
        let name = r#"{"name": "struct", "configuration": {"fields": [
            {"name": "a", "data_type": "uint16"}, {"name": "b", "data_type": "float32"}]}}"#;
        assert_eq!(converted("[('a', '<u2'), ('b', '<f4')]", name, false), Ok(Conversion::None));
        assert_eq!(converted("[('a', '>u2'), ('b', '>f4')]", name, false), Ok(Conversion::Swap));
        assert!(converted("[('a', '>u2'), ('b', '<f4')]", name, false).is_err());
        assert!(converted("[('a', '<u2'), ('c', '<f4')]", name, false).is_err());
    }
}
