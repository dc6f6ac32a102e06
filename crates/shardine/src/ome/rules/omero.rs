//! How the channels of an image are shown: `omero`.

use serde_json::{Map, Value};

use super::RuleKind;
use super::judge::{At, Judge, quoted};

const KIND: RuleKind = RuleKind::Channels;

pub(super) fn judge(omero: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(omero) = judge.object(KIND, omero, at) else { return };
    let Some(channels) = judge.required(KIND, omero, "channels", at) else { return };
    let at = at.member("channels");
    for (number, channel) in judge.list(KIND, channels, &at).unwrap_or_default().iter().enumerate()
    {
        let at = at.item(number);
        let Some(channel) = judge.object(KIND, channel, &at) else { continue };
        judge.strings(KIND, channel, &["label", "family"], &at);
        if channel.get("active").is_some_and(|active| !active.is_boolean()) {
            judge.must(KIND, &at.member("active"), "is neither true nor false");
        }
        if let Some(color) = judge.required_string(KIND, channel, "color", &at)
            && !(color.len() == 6 && color.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            let message = format!("{} is not six hexadecimal digits", quoted(color));
            judge.must(KIND, &at.member("color"), message);
        }
        if let Some(window) = judge.required(KIND, channel, "window", &at) {
            let at = at.member("window");
            if let Some(window) = judge.object(KIND, window, &at) {
                judge_window(window, &at, judge);
            }
        }
    }
}

fn judge_window(window: &Map<String, Value>, at: &At<'_>, judge: &mut Judge) {
    let mut number = |name: &str| {
        let value = judge.required(KIND, window, name, at)?;
        let number = value.as_f64();
        if number.is_none() {
            judge.must(KIND, &at.member(name), "is not a number");
        }
        number
    };
    let [min, start, end, max] = ["min", "start", "end", "max"].map(&mut number);
    let (Some(min), Some(start), Some(end), Some(max)) = (min, start, end, max) else { return };
    if !(min <= start && start <= end && end <= max) {
        let message = format!("shows {start} to {end} of {min} to {max}: these are not in order");
        judge.doubt(KIND, at, message);
    }
}
