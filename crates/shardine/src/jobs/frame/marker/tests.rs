use serde_json::{Map, json};

use super::*;

const COPY: JobKind = JobKind { marker: ".shardine-copy.json", member: "shardine_copy" };

fn marker(request: Value) -> Marker {
    let begun = Map::from_iter([("a/b".to_owned(), json!(u64::MAX))]);
    let id = "1".to_owned();
    let state = State { clearing: true, begun, parts: Some(4), finishing: true, id };
    let source = "s3://b/\"x\"".to_owned();
    let command = Some("shardine copy a b".to_owned());
    let (hold, resumed, version) = (None, false, None);
    Marker { kind: &COPY, source, request, command, state, hold, resumed, version }
}

#[test]
fn a_marker_is_read_as_it_was_written() {
    let parse = |json: Value| Marker::parse(&COPY, json.to_string().as_bytes());
    for request in [Value::Null, json!({ "shard": [1, 2] })] {
        let marker = marker(request);
        assert!(marker.is_begun("a/b", u64::MAX));
        assert!(!marker.is_begun("a/b", 1) && !marker.is_begun("a", u64::MAX));
        let (source, request, state, owner) = parse(marker.to_json()).unwrap();
        assert_eq!((&source, &request, &state), (&marker.source, &marker.request, &marker.state));
        assert!(owner.is_none());
        let text = marker.to_json().to_string();
        assert_eq!(command_in(text.as_bytes()), marker.command);
        for member in ["shardine_copy", "source", "clearing", "begun", "parts"] {
            let mut json = marker.to_json();
            json[member] = json!("x");
            assert_eq!(parse(json).is_some(), member == "source", "{member}");
        }
    }
    assert!(Marker::parse(&COPY, b"{").is_none());
}

#[test]
fn reports_of_parts_are_known_by_their_names() {
    assert!(is_report(&report_name(3, 16)));
    for name in ["", ".shardine-part-.json", ".shardine-part-1-of-.json", "part-1-of-2.json"] {
        assert!(!is_report(name), "{name}");
    }
}
