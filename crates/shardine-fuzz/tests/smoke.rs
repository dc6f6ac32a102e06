//! Every fuzz target on its seeds and on seeds with a few bytes changed.
//!
//! Not a replacement for fuzzing: it shows that the targets still compile, that their seeds reach
//! what they are for, and that nothing breaks immediately.

use std::fs;
use std::sync::{Mutex, PoisonError};

use shardine_fuzz::{TARGETS, codecs};

/// Where libFuzzer's side of the targets is.
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// A small generator, so that failures are reproducible on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n.max(1)
    }
}

#[test]
fn targets_survive_their_seeds_and_small_changes_to_them() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} starts from nothing", target.name);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        // About the same work for each target, however many seeds it has.
        let changes = 3000 / seeds.len() + 1;
        for seed in &seeds {
            attempt(target, seed);
            for cut in 0..seed.len().min(24) {
                attempt(target, &seed[..cut]);
            }
            for _ in 0..changes {
                let mut input = seed.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(input.len());
                    match (random.below(4), input.get_mut(at)) {
                        (0, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                        (1, Some(byte)) => *byte ^= 1 << random.below(8),
                        (2, Some(_)) => drop(input.remove(at)),
                        _ => input.insert(at.min(input.len()), random.below(256) as u8),
                    }
                }
                attempt(target, &input);
            }
        }
    }
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for target in TARGETS {
        let dir = format!("{FUZZ}/regressions/{}", target.name);
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            attempt(target, &fs::read(path).unwrap());
        }
    }
}

fn attempt(target: &shardine_fuzz::Target, input: &[u8]) {
    // One at a time: the memory bounds apply to the whole process.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(panic) = std::panic::catch_unwind(|| (target.run)(input)) {
        eprintln!("{} fails on {input:02x?}", target.name);
        std::panic::resume_unwind(panic);
    }
}

/// The files are compiled by `cargo xtask fuzz` alone, so they say nothing but which target they are.
#[test]
fn each_target_has_its_file_and_each_file_its_target() {
    for target in TARGETS {
        let file = format!("{FUZZ}/fuzz_targets/{}.rs", target.name);
        let expected = format!(
            "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|input: &[u8]| shardine_fuzz::{}::run(input));\n",
            target.name
        );
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), expected, "{file}");
        let manifest = fs::read_to_string(format!("{FUZZ}/Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nname = \"{}\"\n", target.name)), "{}", target.name);
    }
    assert_eq!(fs::read_dir(format!("{FUZZ}/fuzz_targets")).unwrap().count(), TARGETS.len());
}

#[test]
fn no_codec_is_left_out() {
    for name in shardine_codec::names() {
        // An alias ends in the name that it stands for: `numcodecs.lz4`, `https://…/fletcher32`.
        let short = name.rsplit(['.', '/']).next().unwrap_or(name);
        let listed = codecs::CONFIGURATIONS.iter().any(|json| {
            [name, short].iter().any(|name| json.contains(&format!("\"name\":\"{name}\"")))
        });
        assert!(listed || codecs::ALIASES.contains(&name), "\"{name}\" is not fuzzed");
    }
}

#[test]
fn every_listed_configuration_is_legal() {
    for json in codecs::CONFIGURATIONS {
        assert!(codecs::parse(json.as_bytes()).is_some(), "{json}");
    }
}
