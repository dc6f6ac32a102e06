//! Shards of values by key, however damaged: what is in them, and what is wrong with each value.

mod checked;
mod fault;
mod folder;
mod names;
mod survey;
mod values;

pub(in crate::jobs) use checked::{Checked, Forms, ToMend, check_open};
pub(in crate::jobs) use fault::{Fault, ShardFault};
pub(in crate::jobs) use folder::{Chunks, Folder, Payload};
pub(in crate::jobs) use names::{NamedShard, Names, last_part};
pub(in crate::jobs) use survey::{Form, Survey, Surveyed, codec, is_gzip, unpack};
pub(in crate::jobs) use values::is_readable;
