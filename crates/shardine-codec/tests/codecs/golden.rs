//! Chunks that zarr-python and numcodecs wrote; `tests/golden/codec/make.py` made them.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use shardine_codec::{
    ArraySpec, ArrayToArray, ArrayToBytes, BytesToBytes, Codec, Context, DataType, ElementSize,
    Elements, VariableElements, from_spec,
};

use crate::support::spec;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/codec");
    std::fs::read(folder.join(name)).unwrap()
}

struct Chain {
    /// The chunk before each array codec, and before the bytes.
    specs: Vec<ArraySpec>,
    array_codecs: Vec<Arc<dyn ArrayToArray>>,
    serializer: Arc<dyn ArrayToBytes>,
    byte_codecs: Vec<Arc<dyn BytesToBytes>>,
}

impl Chain {
    fn new(case: &Value) -> Self {
        let data_type = DataType::from_json(&case["data_type"]).unwrap();
        let shape = case["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let fill = data_type.default_fill();
        let mut specs = vec![ArraySpec { shape, data_type, fill }];
        let (mut array_codecs, mut byte_codecs) = (vec![], vec![]);
        let mut serializer = None;
        for json in case["codecs"].as_array().unwrap() {
            let last = specs.last().unwrap().clone();
            match from_spec(&spec(json)).unwrap() {
                Codec::ArrayToArray(codec) => {
                    specs.push(codec.encoded_spec(&last).unwrap());
                    array_codecs.push(codec);
                }
                Codec::ArrayToBytes(codec) => {
                    codec.check(&last).unwrap();
                    serializer = Some(codec);
                }
                Codec::BytesToBytes(codec) => {
                    let ElementSize::Fixed(size) = last.data_type.size() else { panic!() };
                    byte_codecs.push(codec.with_element_size(size).unwrap_or(codec));
                }
            }
        }
        Self { specs, array_codecs, serializer: serializer.unwrap(), byte_codecs }
    }

    fn encode(&self, context: &mut Context, elements: Elements) -> Vec<u8> {
        let mut elements = elements;
        for (codec, spec) in self.array_codecs.iter().zip(&self.specs) {
            let mut encoded = Vec::new();
            let Elements::Fixed(bytes) = elements else { panic!() };
            codec.encode(context, spec, &bytes, &mut encoded).unwrap();
            elements = Elements::Fixed(encoded);
        }
        let mut bytes = Vec::new();
        let spec = self.specs.last().unwrap();
        self.serializer.encode(context, spec, elements.as_ref(), &mut bytes).unwrap();
        for codec in &self.byte_codecs {
            let mut encoded = Vec::new();
            codec.encode(context, &bytes, &mut encoded).unwrap();
            bytes = encoded;
        }
        bytes
    }

    fn decode(&self, context: &mut Context, chunk: &[u8]) -> Elements {
        let mut bytes = chunk.to_vec();
        for codec in self.byte_codecs.iter().rev() {
            let mut decoded = Vec::new();
            codec.decode(context, &bytes, 1 << 20, &mut decoded).unwrap();
            let mut exact = vec![0; decoded.len()];
            codec.decode_exact(context, &bytes, &mut exact).unwrap();
            assert_eq!(decoded, exact);
            bytes = decoded;
        }
        let spec = self.specs.last().unwrap();
        let mut elements = self.serializer.decode(context, spec, &bytes).unwrap();
        for (codec, spec) in self.array_codecs.iter().zip(&self.specs).rev() {
            let mut decoded = Vec::new();
            let Elements::Fixed(bytes) = elements else { panic!() };
            codec.decode(context, spec, &bytes, &mut decoded).unwrap();
            elements = Elements::Fixed(decoded);
        }
        elements
    }

    fn elements(&self, mut bytes: &[u8]) -> Elements {
        if self.specs[0].data_type.size() != ElementSize::Variable {
            return Elements::Fixed(bytes.to_vec());
        }
        let mut elements = VariableElements::new();
        while let Some((len, rest)) = bytes.split_first_chunk() {
            let (element, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
            elements.push(element);
            bytes = rest;
        }
        Elements::Variable(elements)
    }
}

#[test]
fn chunks_of_zarr_python_are_read_and_written_alike() {
    let context = &mut Context::new();
    let cases: Value = serde_json::from_slice(&golden("cases.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        let chain = Chain::new(case);
        let chunk = golden(&format!("{name}.chunk"));
        let elements = chain.elements(&golden(case["elements"].as_str().unwrap()));
        assert!(chain.decode(context, &chunk) == elements, "{name} decodes to something else");

        let given = match case["given"].as_str() {
            Some(given) => chain.elements(&golden(given)),
            None => elements.clone(),
        };
        let encoded = chain.encode(context, given);
        if case["exact"].as_bool().unwrap() {
            assert!(encoded == chunk, "{name} encodes to something else");
        }
        assert!(chain.decode(context, &encoded) == elements, "{name} does not come back");
    }
}
