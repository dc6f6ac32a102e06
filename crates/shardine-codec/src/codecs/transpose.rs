use std::sync::Arc;

use serde_json::Value;

use super::config::Config;
use super::output;
use crate::{ArraySpec, ArrayToArray, Codec, CodecError, Context, ElementSize};

const NAME: &str = "transpose";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["order"])?;
    let wrong = || config.wrong("order", "a permutation of 0, 1, ... n-1");
    let order = match config.required("order")? {
        // Early drafts named the two common orders instead.
        Value::String(order) if order == "C" => Order::Same,
        Value::String(order) if order == "F" => Order::Reversed,
        Value::Array(axes) => {
            let mut order = Vec::with_capacity(axes.len());
            for axis in axes {
                let axis = axis.as_u64().and_then(|axis| usize::try_from(axis).ok());
                let axis = axis.filter(|axis| *axis < axes.len() && !order.contains(axis));
                order.push(axis.ok_or_else(wrong)?);
            }
            Order::Axes(order)
        }
        _ => return Err(wrong()),
    };
    Ok(Codec::ArrayToArray(Arc::new(Transpose { order })))
}

#[derive(Debug)]
enum Order {
    /// Encoded axis `i` is decoded axis `order[i]`.
    Axes(Vec<usize>),
    Same,
    Reversed,
}

#[derive(Debug)]
struct Transpose {
    order: Order,
}

impl Transpose {
    /// The decoded axis of each encoded axis, for arrays of `rank` dimensions.
    fn axes(&self, rank: usize) -> Result<Vec<usize>, CodecError> {
        match &self.order {
            Order::Axes(axes) if axes.len() == rank => Ok(axes.clone()),
            Order::Axes(axes) => Err(CodecError::unsupported(
                NAME,
                format!("\"order\" has {} axes, but the array has {rank}", axes.len()),
            )),
            Order::Same => Ok((0..rank).collect()),
            Order::Reversed => Ok((0..rank).rev().collect()),
        }
    }

    fn copy(
        &self,
        decoded: &ArraySpec,
        input: &[u8],
        out: &mut Vec<u8>,
        encoding: bool,
    ) -> Result<(), CodecError> {
        let axes = self.axes(decoded.shape.len())?;
        let (ElementSize::Fixed(size), Some(len)) = (decoded.data_type.size(), decoded.byte_len())
        else {
            let reason = format!("elements of \"{}\" have no fixed size", decoded.data_type.name());
            return Err(CodecError::unsupported(NAME, reason));
        };
        output::check_size(NAME, len, input.len())?;
        // Walks the result in C order; `strides` are those of the input along the result's axes.
        let lengths: Vec<usize> =
            decoded.shape.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        let (shape, strides): (Vec<usize>, Vec<usize>) = if encoding {
            let strides = c_strides(&lengths, size);
            axes.iter().map(|&axis| (lengths[axis], strides[axis])).unzip()
        } else {
            let encoded: Vec<usize> = axes.iter().map(|&axis| lengths[axis]).collect();
            let mut found = vec![0; axes.len()];
            for (&axis, stride) in axes.iter().zip(c_strides(&encoded, size)) {
                found[axis] = stride;
            }
            (lengths, found)
        };
        out.clear();
        output::reserve(NAME, out, len)?;
        let (Some(&last), Some(&step)) = (shape.last(), strides.last()) else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let mut index = vec![0; shape.len() - 1];
        let mut offset = 0;
        while out.len() < len {
            for i in 0..last {
                let from = offset + i * step;
                out.extend_from_slice(input.get(from..from + size).unwrap_or_default());
            }
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                offset += strides[axis];
                if index[axis] < shape[axis] {
                    break;
                }
                offset -= strides[axis] * shape[axis];
                index[axis] = 0;
            }
        }
        Ok(())
    }
}

/// Byte strides of an array in C order; only used with shapes whose size in bytes is known to fit.
fn c_strides(shape: &[usize], size: usize) -> Vec<usize> {
    let mut strides = vec![size; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

impl ArrayToArray for Transpose {
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError> {
        let axes = self.axes(decoded.shape.len())?;
        if self.permutation().is_none() && decoded.data_type.size() == ElementSize::Variable {
            let reason = "\"order\" must list the axes for elements of no fixed size";
            return Err(CodecError::unsupported(NAME, reason));
        }
        let shape = axes.iter().map(|&axis| decoded.shape[axis]).collect();
        Ok(ArraySpec { shape, ..decoded.clone() })
    }

    fn encode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.copy(decoded, elements, out, true)
    }

    fn decode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.copy(decoded, encoded, out, false)
    }

    fn permutation(&self) -> Option<&[usize]> {
        match &self.order {
            Order::Axes(axes) => Some(axes),
            Order::Same | Order::Reversed => None,
        }
    }
}
