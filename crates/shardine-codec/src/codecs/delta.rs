use std::sync::Arc;

use super::config::Config;
use super::numeric::{self, Number, Numeric, with_type};
use super::output;
use crate::{ArraySpec, ArrayToArray, Codec, CodecError, Context, FillValue};

const NAME: &str = "delta";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["dtype", "astype"])?;
    let types = NumericTypes::new(config)?;
    Ok(Codec::ArrayToArray(Arc::new(Delta { types })))
}

/// The differences between neighbours in C order, after the first element itself.
///
/// Integers wrap around, so they are restored exactly whatever the differences are; floating-point
/// numbers are restored as far as their precision allows.
#[derive(Debug)]
struct Delta {
    types: NumericTypes,
}

/// The `dtype` and `astype` of a numcodecs codec.
#[derive(Debug)]
pub(super) struct NumericTypes {
    decoded: Option<Numeric>,
    encoded: Option<Numeric>,
}

impl NumericTypes {
    pub(super) fn new(config: &Config<'_>) -> Result<Self, CodecError> {
        let numeric = |member| match config.string(member)? {
            None => Ok(None),
            Some(name) => match Numeric::from_numpy(name) {
                Some(numeric) => Ok(Some(numeric)),
                None => Err(config.wrong(member, "a numpy integer or floating-point type")),
            },
        };
        Ok(Self { decoded: numeric("dtype")?, encoded: numeric("astype")? })
    }

    /// The types before and after encoding, for arrays with this spec.
    pub(super) fn resolve(
        &self,
        codec: &str,
        decoded: &ArraySpec,
    ) -> Result<(Numeric, Numeric), CodecError> {
        let refuse = |reason| Err(CodecError::unsupported(codec, reason));
        let name = decoded.data_type.name();
        let Some(actual) = Numeric::of(&decoded.data_type) else {
            return refuse(format!("the data type is \"{name}\""));
        };
        match self.decoded {
            Some(wanted) if wanted != actual => {
                refuse(format!("\"dtype\" is not the data type, which is \"{name}\""))
            }
            _ => Ok((actual, self.encoded.unwrap_or(actual))),
        }
    }
}

/// The spec after a codec that only changes the type of the elements and the fill value.
pub(super) fn retyped(
    decoded: &ArraySpec,
    types: (Numeric, Numeric),
    fill: Vec<u8>,
) -> Result<ArraySpec, CodecError> {
    let same = types.0 == types.1;
    let data_type = if same { decoded.data_type.clone() } else { types.1.data_type()? };
    Ok(ArraySpec { shape: decoded.shape.clone(), data_type, fill: FillValue(fill) })
}

/// An error unless `input` holds all elements of a chunk as numbers of type `numeric`.
pub(super) fn check_len(
    codec: &'static str,
    decoded: &ArraySpec,
    numeric: Numeric,
    input: &[u8],
) -> Result<(), CodecError> {
    let expected = decoded.elements().and_then(|count| count.checked_mul(numeric.size()));
    output::check_size(codec, expected.unwrap_or(usize::MAX), input.len())
}

fn differences<N: Number>(input: &[u8], out: &mut Vec<u8>) {
    let mut last = N::zero();
    for (i, element) in input.chunks_exact(size_of::<N>()).enumerate() {
        let value = N::read(element);
        // The first is stored unchanged: a difference from 0 would lose the sign of -0.0.
        if i == 0 { value } else { value.sub(last) }.write(out);
        last = value;
    }
}

fn sums<N: Number>(input: &[u8], out: &mut Vec<u8>) {
    let mut sum = N::zero();
    for (i, element) in input.chunks_exact(size_of::<N>()).enumerate() {
        let value = N::read(element);
        sum = if i == 0 { value } else { sum.add(value) };
        sum.write(out);
    }
}

impl ArrayToArray for Delta {
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError> {
        let types = self.types.resolve(NAME, decoded)?;
        let mut fill = Vec::new();
        numeric::cast(types.0, types.1, &decoded.fill.0, &mut fill);
        retyped(decoded, types, fill)
    }

    fn encode(
        &self,
        context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (from, to) = self.types.resolve(NAME, decoded)?;
        check_len(NAME, decoded, from, elements)?;
        out.clear();
        output::reserve(NAME, out, elements.len() / from.size() * to.size())?;
        if from == to {
            with_type!(from, N => differences::<N>(elements, out));
            return Ok(());
        }
        let mut scratch = context.take_buffer();
        with_type!(from, N => differences::<N>(elements, &mut scratch));
        numeric::cast(from, to, &scratch, out);
        context.give_buffer(scratch);
        Ok(())
    }

    fn decode(
        &self,
        context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (to, from) = self.types.resolve(NAME, decoded)?;
        check_len(NAME, decoded, from, encoded)?;
        out.clear();
        output::reserve(NAME, out, encoded.len() / from.size() * to.size())?;
        let sum = from.to_sum(to);
        if from == sum && sum == to {
            with_type!(to, N => sums::<N>(encoded, out));
            return Ok(());
        }
        let (mut terms, mut totals) = (context.take_buffer(), context.take_buffer());
        numeric::cast(from, sum, encoded, &mut terms);
        with_type!(sum, N => sums::<N>(&terms, &mut totals));
        numeric::cast(sum, to, &totals, out);
        context.give_buffer(terms);
        context.give_buffer(totals);
        Ok(())
    }
}
