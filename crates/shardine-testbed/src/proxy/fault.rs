//! What goes wrong, and when.

use std::str::FromStr;
use std::time::Duration;

use crate::BedError;

/// Something that can go wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is closed before the server receives the request. Text: `drop`.
    Drop,
    /// The connection is closed after half of the request's body; the server sees that too. Text:
    /// `drop-middle`.
    DropMiddle,
    /// The server executes the request, but its answer is lost. Text: `lost-answer`.
    LostAnswer,
    /// The server is not asked; the client gets this status. Text: `status=503`, with
    /// `retry-after=1` among the conditions.
    Status {
        /// The status code, such as 503, 429 or 500.
        code: u16,
        /// The value of the `Retry-After` header in seconds; without it the header is omitted.
        retry_after: Option<u32>,
    },
    /// The answer announces its whole body, but only half of it arrives. Text: `truncate`.
    Truncate,
    /// The body of the answer arrives in small pieces. Text: `slow=1000`, bytes per 10 ms.
    Slow {
        /// The bytes in a piece.
        piece: usize,
        /// The pause after each piece.
        pause: Duration,
    },
    /// The server is asked immediately; its answer is held back for this long. Text: `stall=500`,
    /// in milliseconds.
    Stall(Duration),
}

impl Fault {
    /// Its name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::DropMiddle => "drop-middle",
            Self::LostAnswer => "lost-answer",
            Self::Status { .. } => "status",
            Self::Truncate => "truncate",
            Self::Slow { .. } => "slow",
            Self::Stall(_) => "stall",
        }
    }
}

/// Which requests get a fault: all, unless conditions are added.
///
/// ```
/// # use shardine_testbed::{Fault, Rule};
/// // The third PUT to a shard loses its answer.
/// let rule = Rule::new(Fault::LostAnswer).method("PUT").path("/c/").nth(3);
/// // One GET in ten is told to wait.
/// let code = 503;
/// let rule = Rule::new(Fault::Status { code, retry_after: None }).method("GET").probability(0.1);
/// ```
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    method: Option<String>,
    path: Option<String>,
    skip: u64,
    times: u64,
    probability: f64,
}

impl Rule {
    /// A rule that applies to every request.
    pub fn new(fault: Fault) -> Self {
        Self { fault, method: None, path: None, skip: 0, times: u64::MAX, probability: 1.0 }
    }

    /// Only requests with this method.
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only requests whose path or query contains this.
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Only the `n`th of the requests that match, counted from 1.
    pub fn nth(self, n: u64) -> Self {
        self.skip(n.saturating_sub(1)).times(1)
    }

    /// Not the first `n` of the requests that match.
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// At most this often.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Each matching request with this probability, drawn with the seed of [`Faults`].
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn matches(&self, method: &str, target: &str) -> bool {
        self.method.as_deref().is_none_or(|m| m == method)
            && self.path.as_deref().is_none_or(|part| target.contains(part))
    }
}

/// A plan of faults: the first rule that applies to a request decides. None by default.
///
/// As text, rules are separated by `;`. A rule is a fault and, after a colon, conditions:
/// `lost-answer:method=PUT,path=/c/,nth=3;status=503:p=0.1,retry-after=1;slow=1000:times=2,skip=5`.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    seed: u64,
}

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// A plan whose rules draw their probabilities from `seed`.
    pub fn new(seed: u64, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), seed }
    }

    /// The same plan with another seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl From<Rule> for Faults {
    fn from(rule: Rule) -> Self {
        Self::new(0, [rule])
    }
}

impl FromStr for Faults {
    type Err = BedError;

    fn from_str(text: &str) -> Result<Self, BedError> {
        let rules = text.split(';').filter(|rule| !rule.trim().is_empty()).map(parse_rule);
        Ok(Self { rules: rules.collect::<Result<_, _>>()?, seed: 0 })
    }
}

fn parse_rule(text: &str) -> Result<Rule, BedError> {
    let wrong = |why| BedError::Spec { text: text.to_owned(), why };
    let (fault, conditions) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    let (name, value) = fault.split_once('=').unwrap_or((fault, ""));
    let fault = match name {
        "drop" => Fault::Drop,
        "drop-middle" => Fault::DropMiddle,
        "lost-answer" => Fault::LostAnswer,
        "truncate" => Fault::Truncate,
        "status" => {
            let code = value.parse().map_err(|_| wrong("status=CODE"))?;
            Fault::Status { code, retry_after: None }
        }
        "slow" => {
            let piece = value.parse().map_err(|_| wrong("slow=BYTES"))?;
            Fault::Slow { piece, pause: Duration::from_millis(10) }
        }
        "stall" => {
            let milliseconds = value.parse().map_err(|_| wrong("stall=MILLISECONDS"))?;
            Fault::Stall(Duration::from_millis(milliseconds))
        }
        _ => return Err(wrong("its name is not known")),
    };
    let mut rule = Rule::new(fault);
    for condition in conditions.split(',').filter(|condition| !condition.is_empty()) {
        let (name, value) = condition.split_once('=').ok_or_else(|| wrong("name=value"))?;
        let number = || value.parse::<u64>().map_err(|_| wrong("a number is needed"));
        rule = match name {
            "method" => rule.method(value),
            "path" => rule.path(value),
            "nth" => rule.nth(number()?),
            "skip" => rule.skip(number()?),
            "times" => rule.times(number()?),
            "p" => rule.probability(value.parse().map_err(|_| wrong("a number is needed"))?),
            "retry-after" => {
                let Fault::Status { code, .. } = rule.fault else {
                    return Err(wrong("only a status has retry-after"));
                };
                let seconds = value.parse().map_err(|_| wrong("a number is needed"))?;
                rule.fault = Fault::Status { code, retry_after: Some(seconds) };
                rule
            }
            _ => return Err(wrong("a condition is not known")),
        };
    }
    Ok(rule)
}

/// A plan being executed.
pub(crate) struct Plan {
    /// Each rule, with how many requests matched and how many of them got the fault.
    rules: Vec<(Rule, u64, u64)>,
    random: fastrand::Rng,
}

impl Plan {
    pub fn new(faults: Faults) -> Self {
        let random = fastrand::Rng::with_seed(faults.seed);
        Self { rules: faults.rules.into_iter().map(|rule| (rule, 0, 0)).collect(), random }
    }

    /// The fault that this request gets.
    pub fn decide(&mut self, method: &str, target: &str) -> Option<Fault> {
        let mut decided = None;
        for (rule, seen, met) in &mut self.rules {
            if !rule.matches(method, target) {
                continue;
            }
            *seen += 1;
            // Always drawn, so that one rule does not affect the draws of another.
            let unlucky = rule.probability >= 1.0 || self.random.f64() < rule.probability;
            if decided.is_none() && unlucky && *seen > rule.skip && *met < rule.times {
                *met += 1;
                decided = Some(rule.fault.clone());
            }
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_rules_mean_the_same() {
        let text = "lost-answer:method=PUT,path=/c/,nth=2;status=503:retry-after=1,times=1";
        let mut plan = Plan::new(text.parse().unwrap());
        assert_eq!(
            plan.decide("PUT", "/b/c/0"),
            Some(Fault::Status { code: 503, retry_after: Some(1) })
        );
        assert_eq!(plan.decide("GET", "/b/c/0"), None);
        assert_eq!(plan.decide("PUT", "/b/c/1"), Some(Fault::LostAnswer));
        assert_eq!(plan.decide("PUT", "/b/c/1"), None);
        for wrong in ["dorp", "status", "drop:nth=x", "drop:retry-after=1", "drop:nth"] {
            assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_seed_brings_the_same_faults() {
        let run = |seed| {
            let mut plan = Plan::new(Faults::new(seed, [Rule::new(Fault::Drop).probability(0.3)]));
            (0..100).map(|_| plan.decide("GET", "/").is_some()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let met = run(1).iter().filter(|met| **met).count();
        assert!((15..45).contains(&met), "{met} of 100");
    }
}
