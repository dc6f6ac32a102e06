//! A level as the source of the next one's elements, for writes that go through the engine.

use shardine_codec::Downsample;

use super::reader::{Reader, Reduced};
use crate::source::{GeneratorSource, Source};
use crate::{Array, Error};

/// The elements that a level is to have, made from the level before it when they are asked for.
pub(super) fn reducing<'a>(
    finer: &'a Array,
    kernel: &'a Downsample,
    factors: &'a [u64],
) -> impl Source + 'a {
    let reader = Reader::new(finer);
    let element = finer.chunks.layout.element_size();
    GeneratorSource::new(element, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
        let reduced = finer.engine().with_context(|context| -> Result<(), Error> {
            let fill = &finer.fill().0;
            let mut reduced = Reduced { shape, element, fill, elements: None };
            reader.reduce(context, kernel, factors, start, shape, &mut reduced)?;
            // Where nothing is stored, everything is the fill value.
            reduced.begin(context)?;
            if let Some(elements) = reduced.elements {
                out.copy_from_slice(&elements);
                context.give_buffer(elements);
            }
            Ok(())
        });
        Ok(reduced?)
    })
}
