/// Why a job cannot run on its target now, or together with other processes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// Another process is writing the same target.
    #[error("another process is building {at}")]
    Busy {
        /// The target.
        at: String,
    },
    /// Another process may be writing the target, and nothing shows whether it is still alive.
    #[error("{owner} was building {at}, and may still be running")]
    Owned {
        /// The target.
        at: String,
        /// Which process.
        owner: String,
    },
    /// Another process is changing the documents of a hierarchy.
    #[error("another process is changing the documents of {at}")]
    Switching {
        /// The hierarchy.
        at: String,
    },
    /// The marker of an interrupted job is invalid, so it cannot be ended.
    #[error("{marker}, the marker of an interrupted job, cannot be parsed")]
    Marker {
        /// The file.
        marker: String,
    },
    /// The target is being written in a different number of parts.
    #[error(
        "{at} is being built {}",
        match parts { Some(parts) => format!("in {parts} parts"), None => "by one process".to_owned() }
    )]
    OtherParts {
        /// The target.
        at: String,
        /// The number of parts; `None` if not in parts.
        parts: Option<u32>,
    },
    /// The source has changed since the first part began.
    #[error("{at} has changed since the first part of the job started")]
    SourceChanged {
        /// The source.
        at: String,
    },
    /// Not all parts have finished.
    #[error("{at}: {} not finished yet", missing_parts(missing))]
    PartsMissing {
        /// The target.
        at: String,
        /// Which ones are missing.
        missing: Vec<u32>,
    },
    /// Not all tasks were run.
    #[error("{at}: {missing} of {of} tasks have no report")]
    TasksMissing {
        /// The target.
        at: String,
        /// How many are missing.
        missing: u64,
        /// How many there are.
        of: u64,
    },
    /// A plan has no such step.
    #[error("the plan for {at} has no step {step}")]
    NoStep {
        /// The target.
        at: String,
        /// The number of the step.
        step: usize,
    },
    /// A plan was made by another version of this program.
    #[error("the plan has format {version}, which is not supported")]
    OtherVersion {
        /// The version of the plan.
        version: u32,
    },
    /// A plan is invalid.
    #[error("the plan for {at} cannot be followed: {reason}")]
    Plan {
        /// The target.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to finish.
    #[error("no part of a job on {at} has started")]
    NothingBegun {
        /// The target.
        at: String,
    },
    /// The job has nothing to do after its parts.
    #[error("{job} writes nothing, so there is nothing to finish after its parts")]
    NothingToFinish {
        /// The job.
        job: &'static str,
    },
    /// The report of a part is invalid.
    #[error("\"{report}\", the report of a part of the job, is damaged")]
    Report {
        /// The object.
        report: String,
    },
    /// An option cannot be combined with parts.
    #[error("{option} cannot be combined with --part: {reason}")]
    NotInParts {
        /// The option.
        option: &'static str,
        /// Why not.
        reason: &'static str,
    },
}

fn missing_parts(missing: &[u32]) -> String {
    let names: Vec<String> = missing.iter().take(20).map(u32::to_string).collect();
    let more = missing.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match missing.len() {
        1 => format!("part {} has", names.join(", ")),
        _ => format!("parts {}{more} have", names.join(", ")),
    }
}

impl JobError {
    /// What stands for an option where there is no target.
    pub(in crate::jobs) const IN_PLACE: &str = "an in-place job";

    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Busy { .. } => {
                "wait until it finishes; to share the work, run each process with --part I/N".into()
            }
            Self::Switching { .. } => {
                "wait until it finishes, then run the same command again".into()
            }
            Self::Marker { .. } => "documents that are links lead into its folder: replace each \
                                    link with the file it leads to, then remove the folder"
                .into(),
            Self::Owned { .. } => "use --take-over if that process has ended".into(),
            Self::OtherParts { parts: Some(parts), .. } => {
                format!("run it with --part I/{parts}, or start over with --restart")
            }
            Self::OtherParts { parts: None, .. } => {
                "run it without --part, or start over with --restart".into()
            }
            Self::SourceChanged { .. } => {
                "remove the target, and run all parts again when nothing is changing the source"
                    .into()
            }
            Self::PartsMissing { .. } => "run these parts; the last one finishes the job".into(),
            Self::NothingBegun { .. } => "run the parts first, with --part 1/N and so on".into(),
            Self::NothingToFinish { .. } => "see the report of each part".into(),
            Self::TasksMissing { .. } => "run these tasks, then finish".into(),
            Self::NoStep { .. } | Self::OtherVersion { .. } | Self::Plan { .. } => {
                "plan the job again, with the same version everywhere".into()
            }
            Self::Report { .. } => "run that part again".into(),
            Self::NotInParts { option: Self::IN_PLACE, .. } => {
                "use -o with a target that all parts write to, or leave out --part".into()
            }
            Self::NotInParts { option: "--levels", .. } => {
                "leave out --levels, or let one process do all of it".into()
            }
            Self::NotInParts { .. } => "remove the target yourself, then run the parts".into(),
        }
    }
}
