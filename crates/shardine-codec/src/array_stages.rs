use std::sync::Arc;

use crate::strided::{self, Axes, Placement};
use crate::{ArraySpec, ArrayToArray, CodecError, Context, ElementSize};

/// A chain of array-to-array codecs, bound to the shape and type of its input.
#[derive(Debug, Clone)]
pub struct ArrayStages {
    stages: Vec<Stage>,
    encoded: ArraySpec,
}

/// An array-to-array codec with the spec of what it decodes to.
#[derive(Debug, Clone)]
struct Stage {
    codec: Arc<dyn ArrayToArray>,
    decoded: ArraySpec,
}

impl ArrayStages {
    /// Binds codecs to the input of the first one, which must be of fixed size if there are any.
    pub fn new(codecs: &[Arc<dyn ArrayToArray>], decoded: ArraySpec) -> Result<Self, CodecError> {
        let mut stages = Vec::with_capacity(codecs.len());
        let mut encoded = decoded;
        for codec in codecs {
            if encoded.data_type.size() == ElementSize::Variable {
                let name = encoded.data_type.name();
                return Err(CodecError::unsupported(
                    "array -> array",
                    format!("elements of type {name} have no fixed size"),
                ));
            }
            let next = codec.encoded_spec(&encoded)?;
            stages.push(Stage { codec: Arc::clone(codec), decoded: encoded });
            encoded = next;
        }
        Ok(Self { stages, encoded })
    }

    /// Whether there are no codecs.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The spec after the last codec.
    pub fn encoded(&self) -> &ArraySpec {
        &self.encoded
    }

    /// Applies all codecs; `None` if there are none. The result comes from the context's buffers.
    pub fn encode(
        &self,
        context: &mut Context,
        elements: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let mut current: Option<Vec<u8>> = None;
        for stage in &self.stages {
            let mut next = context.take_buffer();
            stage.encode(context, current.as_deref().unwrap_or(elements), &mut next)?;
            if let Some(done) = current.replace(next) {
                context.give_buffer(done);
            }
        }
        Ok(current)
    }

    /// Undoes all codecs.
    pub fn decode(
        &self,
        context: &mut Context,
        mut elements: Vec<u8>,
    ) -> Result<Vec<u8>, CodecError> {
        for stage in self.stages.iter().rev() {
            let mut next = context.take_buffer();
            stage.decode(context, &elements, &mut next)?;
            context.give_buffer(std::mem::replace(&mut elements, next));
        }
        Ok(elements)
    }
}

impl Stage {
    fn encode(
        &self,
        context: &mut Context,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match self.codec.permutation() {
            Some(order) => permute(&self.decoded, order, elements, out, false),
            None => self.codec.encode(context, &self.decoded, elements, out),
        }
    }

    fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match self.codec.permutation() {
            Some(order) => permute(&self.decoded, order, encoded, out, true),
            None => self.codec.decode(context, &self.decoded, encoded, out),
        }
    }
}

/// Performs a permutation of axes that could not be folded into strides.
fn permute(
    decoded: &ArraySpec,
    order: &[usize],
    input: &[u8],
    out: &mut Vec<u8>,
    inverse: bool,
) -> Result<(), CodecError> {
    let refuse = || CodecError::unsupported("transpose", "the chunk does not fit its shape");
    let ElementSize::Fixed(element) = decoded.data_type.size() else { return Err(refuse()) };
    let plain = Placement::contiguous(&decoded.shape, element).ok_or_else(refuse)?;
    let encoded_shape: Vec<u64> = order.iter().map(|&k| decoded.shape[k]).collect();
    let permuted = Placement::contiguous(&encoded_shape, element).ok_or_else(refuse)?;
    // The encoded box, seen along the decoded axes.
    let mut strides: Axes<usize> = plain.strides.clone();
    for (i, &k) in order.iter().enumerate() {
        strides[k] = permuted.strides[i];
    }
    let permuted = Placement { start: 0, strides };
    let shape: Axes<usize> = decoded.shape.iter().map(|&n| n as usize).collect();
    out.clear();
    out.resize(input.len(), 0);
    let (from, to) = if inverse { (&permuted, &plain) } else { (&plain, &permuted) };
    strided::copy(&shape, element, input, from, out, to).map_err(|_| refuse())
}
