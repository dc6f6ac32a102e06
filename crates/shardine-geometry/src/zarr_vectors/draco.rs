//! Cells of meshes that are Draco streams: positions, and the faces inside a chunk.

use super::error::{PayloadError, PayloadResult};

/// What a Draco stream holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DracoCell {
    /// The positions: three float32 each, lowest byte first.
    pub positions: Vec<u8>,
    /// Three vertices for each face, by their row in `positions`.
    pub faces: Vec<u32>,
    /// Whether the vertices are in the order in which they were given.
    ///
    /// Otherwise numbers of vertices that come from elsewhere, such as links to other chunks and
    /// rows of attributes, say nothing of them: most methods put vertices into another order, leave
    /// out those without a face, and store some twice.
    pub keeps_order: bool,
}

/// Reads a stream, if it takes no more than about `most` bytes when decoded.
///
/// No bytes at all are no vertices. A build without the feature `draco` refuses every stream.
pub fn decode_draco(bytes: &[u8], most: u64) -> PayloadResult<DracoCell> {
    if bytes.is_empty() {
        return Ok(DracoCell { keeps_order: true, ..DracoCell::default() });
    }
    stream::decode(bytes, most).map_err(PayloadError::Draco)
}

/// Whether streams can be read in this build.
pub const READS_DRACO: bool = cfg!(feature = "draco");

#[cfg(not(feature = "draco"))]
mod stream {
    pub(super) fn decode(_: &[u8], _: u64) -> Result<super::DracoCell, String> {
        Err("this build cannot read Draco (feature draco)".to_owned())
    }
}

#[cfg(feature = "draco")]
mod stream {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use draco_core::geometry_indices::PointIndex;
    use draco_core::{
        DecodeLimits, DecoderBuffer, ErrorKind, GeometryAttributeType, Mesh, MeshDecoder,
    };

    use super::DracoCell;

    /// Where the header says how the stream is encoded; 0 is in order, for meshes and for points.
    const METHOD: usize = 8;

    pub(super) fn decode(bytes: &[u8], most: u64) -> Result<DracoCell, String> {
        let read = || {
            // A position takes 12 bytes, a face as many; both are also held by the decoder.
            let limits = DecodeLimits::default()
                .with_max_points(most / 64)
                .with_max_faces(most / 64)
                .with_max_decoded_bytes(most / 2);
            let mut buffer = DecoderBuffer::new(bytes).with_limits(limits);
            let mut mesh = Mesh::new();
            let decoded = MeshDecoder::new().decode(&mut buffer, &mut mesh);
            decoded.map(|()| mesh).map_err(|error| match error.kind() {
                ErrorKind::LimitExceeded => format!("it takes more than {most} bytes of memory"),
                _ => error.to_string(),
            })
        };
        // It promises not to panic; if it does, that must not end the whole program.
        let mesh = catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_| Err("the decoder gave up".to_owned()))?;
        let rows = mesh.num_points();
        let position = mesh.named_attribute(GeometryAttributeType::Position);
        let position = position.ok_or("it has no positions")?;
        if position.num_components() != 3 {
            return Err(format!("positions have {} numbers each", position.num_components()));
        }
        for row in 0..u32::try_from(rows).map_err(|error| error.to_string())? {
            let value = position.mapped_index(PointIndex(row)).0;
            if value as usize >= position.size() {
                return Err(format!("vertex {row} has no position"));
            }
        }
        let numbers = position.read_f32s(rows, 3);
        let mut faces = Vec::with_capacity(3 * mesh.num_faces());
        for (at, face) in mesh.faces().iter().enumerate() {
            for corner in face {
                if corner.0 as usize >= rows {
                    return Err(format!("face {at} has vertex {} of {rows}", corner.0));
                }
                faces.push(corner.0);
            }
        }
        Ok(DracoCell {
            positions: numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            faces,
            keeps_order: bytes.get(METHOD) == Some(&0),
        })
    }
}

#[cfg(all(test, feature = "draco"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_stream_is_an_error() {
        for bytes in [&b"DRACO"[..], &[0; 64], b"DRACO\x02\x02\x01\x01\0\0", b"DRACO\x02\x02\0\0"] {
            assert!(matches!(decode_draco(bytes, 1 << 20), Err(PayloadError::Draco(_))));
        }
        assert_eq!(decode_draco(&[], 0).unwrap().positions, [0u8; 0]);
    }
}
