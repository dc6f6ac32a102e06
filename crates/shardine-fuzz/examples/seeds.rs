//! Writes the inputs that fuzzing starts from: `seeds DIR` makes `DIR/<target>/<number>`.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let Some(root) = env::args_os().nth(1) else {
        return Err(io::Error::other("where to? seeds DIR"));
    };
    for target in shardine_fuzz::TARGETS {
        let dir = Path::new(&root).join(target.name);
        fs::create_dir_all(&dir)?;
        let seeds = (target.seeds)();
        for (i, seed) in seeds.iter().enumerate() {
            fs::write(dir.join(format!("{i:04}")), seed)?;
        }
        println!("{}: {} seeds", target.name, seeds.len());
    }
    Ok(())
}
