use std::sync::Arc;

use liblzma::stream::{
    Action, CONCATENATED, Check, Error, Filters, LzmaOptions, MatchFinder, Mode, Status, Stream,
};
use serde_json::{Map, Value};

use super::config::Config;
use super::stream::{self, Step};
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "lzma";

/// The most memory that a decoder may use. The strongest preset needs 65 MiB; a larger dictionary
/// is useless for a chunk, but a damaged header may ask for 4 GiB.
const DECODER_MEMORY: u64 = 256 << 20;
const LARGEST_DICTIONARY: i64 = 128 << 20;

const DEFAULT_PRESET: u32 = 6;
const EXTREME: i64 = 1 << 31;

/// The containers, with the numbers of Python's `lzma` module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Xz,
    Alone,
    Raw,
}

#[derive(Debug, Clone, Copy)]
enum Filter {
    Lzma1(Options),
    Lzma2(Options),
    /// Its only property is the distance minus 1.
    Delta(u8),
    X86,
    PowerPc,
    Ia64,
    Arm,
    ArmThumb,
    Sparc,
}

/// The options of an LZMA filter; `None` takes the preset's value.
#[derive(Debug, Clone, Copy)]
struct Options {
    preset: u32,
    dict_size: Option<u32>,
    lc: Option<u32>,
    lp: Option<u32>,
    pb: Option<u32>,
    mode: Option<Mode>,
    nice_len: Option<u32>,
    mf: Option<MatchFinder>,
    depth: Option<u32>,
}

#[derive(Debug)]
struct Lzma {
    format: Format,
    check: Check,
    preset: u32,
    filters: Option<Vec<Filter>>,
}

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["format", "check", "preset", "filters"])?;
    let format = match config.integer("format", 1..=3)? {
        None | Some(1) => Format::Xz,
        Some(2) => Format::Alone,
        Some(_) => Format::Raw,
    };
    let check = match config.integer("check", -1..=15)? {
        None | Some(-1) => Check::Crc64,
        Some(0) => Check::None,
        Some(1) => Check::Crc32,
        Some(4) => Check::Crc64,
        Some(10) => Check::Sha256,
        Some(_) => return Err(config.wrong("check", "-1, 0, 1, 4 or 10")),
    };
    let preset = preset(config)?;
    let filters = match config.get("filters") {
        None => None,
        Some(Value::Array(filters)) => Some(filters.iter().map(filter).collect::<Result<_, _>>()?),
        Some(_) => return Err(config.wrong("filters", "a list")),
    };
    if filters.is_some() && preset.is_some() {
        return Err(config.error("\"preset\" and \"filters\" exclude each other"));
    }
    if filters.is_none() && format == Format::Raw {
        return Err(config.error("\"filters\" is missing, and needed for format 3"));
    }
    let codec = Lzma { format, check, preset: preset.unwrap_or(DEFAULT_PRESET), filters };
    if let Some(filters) = &codec.filters {
        let fits = format != Format::Alone || matches!(filters.as_slice(), [Filter::Lzma1(_)]);
        // Only liblzma knows which filters can be combined.
        if !fits || chain(filters).and_then(|chain| Stream::new_raw_decoder(&chain)).is_err() {
            return Err(config.wrong("filters", "a chain that liblzma supports"));
        }
    }
    Ok(Codec::BytesToBytes(Arc::new(codec)))
}

fn preset(config: &Config<'_>) -> Result<Option<u32>, CodecError> {
    match config.integer("preset", 0..=EXTREME + 9)? {
        Some(preset) if preset & !EXTREME > 9 => Err(config.wrong("preset", "from 0 to 9")),
        preset => Ok(preset.and_then(|preset| u32::try_from(preset).ok())),
    }
}

/// Parses a filter given as a dictionary of Python's `lzma` module.
fn filter(json: &Value) -> Result<Filter, CodecError> {
    let empty = Map::new();
    let config = Config::of("lzma filter", json.as_object().unwrap_or(&empty));
    let plain = |filter| config.only(&["id"]).map(|()| filter);
    match config.required_integer("id", 0..=i64::MAX)? {
        0x4000_0000_0000_0001 => Ok(Filter::Lzma1(options(&config)?)),
        0x21 => Ok(Filter::Lzma2(options(&config)?)),
        3 => {
            config.only(&["id", "dist"])?;
            let distance = config.integer("dist", 1..=256)?.unwrap_or(1);
            Ok(Filter::Delta(u8::try_from(distance - 1).unwrap_or(0)))
        }
        4 => plain(Filter::X86),
        5 => plain(Filter::PowerPc),
        6 => plain(Filter::Ia64),
        7 => plain(Filter::Arm),
        8 => plain(Filter::ArmThumb),
        9 => plain(Filter::Sparc),
        _ => Err(config.wrong("id", "that of a known filter")),
    }
}

fn options(config: &Config<'_>) -> Result<Options, CodecError> {
    let names = ["id", "preset", "dict_size", "lc", "lp", "pb", "mode", "nice_len", "mf", "depth"];
    config.only(&names)?;
    let number = |member, range| -> Result<Option<u32>, CodecError> {
        Ok(config.integer(member, range)?.and_then(|value| u32::try_from(value).ok()))
    };
    let mode = match config.integer("mode", 1..=2)? {
        None => None,
        Some(1) => Some(Mode::Fast),
        Some(_) => Some(Mode::Normal),
    };
    let mf = match config.integer("mf", 3..=20)? {
        None => None,
        Some(3) => Some(MatchFinder::HashChain3),
        Some(4) => Some(MatchFinder::HashChain4),
        Some(18) => Some(MatchFinder::BinaryTree2),
        Some(19) => Some(MatchFinder::BinaryTree3),
        Some(20) => Some(MatchFinder::BinaryTree4),
        Some(_) => return Err(config.wrong("mf", "3, 4, 18, 19 or 20")),
    };
    Ok(Options {
        preset: preset(config)?.unwrap_or(DEFAULT_PRESET),
        dict_size: number("dict_size", 4096..=LARGEST_DICTIONARY)?,
        lc: number("lc", 0..=4)?,
        lp: number("lp", 0..=4)?,
        pb: number("pb", 0..=4)?,
        mode,
        nice_len: number("nice_len", 2..=273)?,
        mf,
        depth: number("depth", 0..=i64::from(u32::MAX))?,
    })
}

impl Options {
    fn build(&self) -> Result<LzmaOptions, Error> {
        let mut options = LzmaOptions::new_preset(self.preset)?;
        if let Some(value) = self.dict_size {
            options.dict_size(value);
        }
        if let Some(value) = self.lc {
            options.literal_context_bits(value);
        }
        if let Some(value) = self.lp {
            options.literal_position_bits(value);
        }
        if let Some(value) = self.pb {
            options.position_bits(value);
        }
        if let Some(value) = self.mode {
            options.mode(value);
        }
        if let Some(value) = self.nice_len {
            options.nice_len(value);
        }
        if let Some(value) = self.mf {
            options.match_finder(value);
        }
        if let Some(value) = self.depth {
            options.depth(value);
        }
        Ok(options)
    }
}

impl Lzma {
    fn encoder(&self) -> Result<Stream, Error> {
        match (self.format, &self.filters) {
            (Format::Xz, None) => Stream::new_easy_encoder(self.preset, self.check),
            (Format::Xz, Some(filters)) => Stream::new_stream_encoder(&chain(filters)?, self.check),
            (Format::Alone, None) => {
                Stream::new_lzma_encoder(&LzmaOptions::new_preset(self.preset)?)
            }
            (Format::Alone, Some(filters)) => match filters.as_slice() {
                [Filter::Lzma1(options)] => Stream::new_lzma_encoder(&options.build()?),
                _ => Err(Error::Options),
            },
            (Format::Raw, filters) => {
                Stream::new_raw_encoder(&chain(filters.as_deref().unwrap_or_default())?)
            }
        }
    }

    fn decoder(&self) -> Result<Stream, Error> {
        match self.format {
            Format::Xz => Stream::new_stream_decoder(DECODER_MEMORY, CONCATENATED),
            Format::Alone => Stream::new_lzma_decoder(DECODER_MEMORY),
            Format::Raw => {
                Stream::new_raw_decoder(&chain(self.filters.as_deref().unwrap_or_default())?)
            }
        }
    }
}

fn chain(filters: &[Filter]) -> Result<Filters, Error> {
    let mut chain = Filters::new();
    for filter in filters {
        match filter {
            Filter::Lzma1(options) => chain.lzma1(&options.build()?),
            Filter::Lzma2(options) => chain.lzma2(&options.build()?),
            Filter::Delta(distance) => chain.delta_properties(&[*distance])?,
            Filter::X86 => chain.x86(),
            Filter::PowerPc => chain.powerpc(),
            Filter::Ia64 => chain.ia64(),
            Filter::Arm => chain.arm(),
            Filter::ArmThumb => chain.arm_thumb(),
            Filter::Sparc => chain.sparc(),
        };
    }
    Ok(chain)
}

fn read(stream: &Stream, before: u64) -> usize {
    usize::try_from(stream.total_in().saturating_sub(before)).unwrap_or(usize::MAX)
}

impl BytesToBytes for Lzma {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let failed = |error: Error| CodecError::Encode { codec: NAME, reason: error.to_string() };
        let mut encoder = self.encoder().map_err(failed)?;
        stream::run(NAME, input, usize::MAX, out, |bytes, out| {
            let before = encoder.total_in();
            let status = encoder.process_vec(bytes, out, Action::Finish).map_err(failed)?;
            Ok(Step { read: read(&encoder, before), ended: status == Status::StreamEnd })
        })
        .map(drop)
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let corrupt = |reason: String| CodecError::corrupt(NAME, input.len(), reason);
        let failed = |error: Error| corrupt(error.to_string());
        let mut decoder = self.decoder().map_err(failed)?;
        let end = stream::run(NAME, input, limit, out, |bytes, out| {
            let before = decoder.total_in();
            let status = decoder.process_vec(bytes, out, Action::Finish).map_err(failed)?;
            Ok(Step { read: read(&decoder, before), ended: status == Status::StreamEnd })
        })?;
        if end == input.len() {
            return Ok(());
        }
        Err(corrupt(format!("{} bytes follow the end of the stream", input.len() - end)))
    }

    fn encoded_size(&self, _input: u64) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
