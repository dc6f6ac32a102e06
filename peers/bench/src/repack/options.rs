//! The command line of the driver.

use std::path::PathBuf;

use super::plan::{FULL, Scale, Subject, WORKS, Work};
use crate::Result;

/// What to run, and where everything is.
pub struct Options {
    pub scale: Scale,
    pub rounds: usize,
    only: Vec<String>,
    pub subjects: Vec<Subject>,
    /// Where the arrays are kept, and results made.
    pub folder: PathBuf,
    pub out: PathBuf,
    pub python: PathBuf,
    pub worker: PathBuf,
    pub shardine: PathBuf,
    pub zarrs: PathBuf,
}

impl Options {
    pub fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            scale: FULL,
            rounds: 3,
            only: Vec::new(),
            subjects: Subject::ALL.to_vec(),
            folder: PathBuf::new(),
            out: PathBuf::new(),
            python: PathBuf::new(),
            worker: PathBuf::new(),
            shardine: PathBuf::new(),
            zarrs: PathBuf::new(),
        };
        let mut rest = arguments.iter().copied();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option}: \"{value}\" will not do");
            match option {
                "--size" => options.scale = Scale::named(value).ok_or_else(wrong)?,
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|&n| n > 0);
                    options.rounds = rounds.ok_or_else(wrong)?;
                }
                "--only" => {
                    options.only = value.split(',').map(str::to_owned).collect();
                    let known = |name: &String| WORKS.iter().any(|work| work.name == name);
                    if !options.only.iter().all(known) {
                        return Err(wrong().into());
                    }
                }
                "--peers" => {
                    let subject = |name| Subject::ALL.into_iter().find(|s| s.name() == name);
                    let subjects: Option<Vec<_>> = value.split(',').map(subject).collect();
                    options.subjects = subjects.ok_or_else(wrong)?;
                }
                "--data" => options.folder = PathBuf::from(value),
                "--out" => options.out = PathBuf::from(value),
                "--python" => options.python = PathBuf::from(value),
                "--worker" => options.worker = PathBuf::from(value),
                "--shardine" => options.shardine = PathBuf::from(value),
                "--zarrs" => options.zarrs = PathBuf::from(value),
                _ => return Err(format!("bench --repack does not take \"{option}\"").into()),
            }
        }
        options.folder.push(format!("repack-{}", options.scale.name));
        Ok(options)
    }

    /// What is done in each round.
    pub fn works(&self) -> impl Iterator<Item = &'static Work> {
        WORKS.iter().filter(|work| self.only.is_empty() || self.only.iter().any(|n| n == work.name))
    }
}
