//! Numbers that JSON or its parser cannot represent, as Python writes them.

use super::*;

fn with_attributes(attributes: &str) -> String {
    format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}"#)
}

fn read(attributes: &str) -> Result<GroupMetadata, MetadataError> {
    match NodeMetadata::parse(with_attributes(attributes).as_bytes())? {
        NodeMetadata::Group(group) => Ok(group),
        array => panic!("{array:?}"),
    }
}

fn attributes_text(group: &GroupMetadata) -> String {
    let text = String::from_utf8(group.to_bytes()).unwrap();
    let (_, attributes) = text.split_once("\"attributes\": ").unwrap();
    attributes.split_whitespace().collect::<String>().strip_suffix('}').unwrap().into()
}

#[test]
fn numbers_without_a_json_form_are_written_as_they_were_read() {
    let text = r#"{"a":NaN,"b/~":[-Infinity,{"":Infinity}],"c":1180591620717411303424,"d":"NaN","e":-9223372036854775809}"#;
    let group = read(text).unwrap();
    assert_eq!(group.attributes()["a"], "NaN");
    assert_eq!(group.attributes()["b/~"][1][""], "Infinity");
    assert_eq!(group.attributes()["c"], 1180591620717411303424.0);
    assert_eq!(attributes_text(&group), text);
    assert_eq!(NodeMetadata::parse(&group.to_bytes()), Ok(NodeMetadata::Group(group)));
}

#[test]
fn a_number_that_was_changed_is_written_as_changed() {
    let mut group = read(r#"{"a":NaN,"b":NaN}"#).unwrap();
    let mut attributes = group.attributes().clone();
    attributes.insert("a".into(), json!(1));
    group.set_attributes(attributes);
    assert_eq!(attributes_text(&group), r#"{"a":1,"b":NaN}"#);
    group.set_attributes(Map::new());
    assert_eq!(NodeMetadata::parse(&group.to_bytes()), Ok(NodeMetadata::Group(group)));
}

#[test]
fn strings_are_left_alone_whatever_is_in_them() {
    for text in [
        r#"{"a":"NaN","b":"\"NaN,","c":"\\","d":"\u0000number:NaNa","NaN":1}"#,
        r#"{"a":"\u0000number:x","b":NaN}"#,
        r#"{"a":"1180591620717411303424"}"#,
    ] {
        assert_eq!(attributes_text(&read(text).unwrap()), text);
    }
}

#[test]
fn other_words_are_still_no_json() {
    for text in ["nan", "-NaN", "+Infinity", "Inf", "NaNNaN", "[NaN", "{NaN:1}", "01", "1e400"] {
        assert!(read(&format!("{{\"a\":{text}}}")).is_err(), "{text}");
    }
}

#[test]
fn a_flood_of_them_is_refused() {
    let flood = "NaN,".repeat(1 << 17);
    let refusal = read(&format!("{{\"a\":[{flood}1]}}")).unwrap_err().to_string();
    assert!(refusal.contains("more than 65536"), "{refusal}");
}

#[test]
fn a_document_past_the_limit_is_refused_unread() {
    let long = vec![b' '; MAX_DOCUMENT_BYTES + 1];
    let refusal = NodeMetadata::parse(&long);
    assert!(matches!(refusal, Err(MetadataError::TooLarge { .. })));
}

#[test]
fn numbers_follow_attributes_that_are_moved_into_another() {
    let mut group = read(r#"{"a":{"b":[NaN]},"c":Infinity,"d":NaN}"#).unwrap();
    let mut attributes = group.attributes().clone();
    let inner = attributes.shift_remove("a").unwrap();
    attributes.shift_remove("d");
    attributes.insert("ome".to_owned(), json!({ "a": inner, "d": "changed" }));
    group.move_attributes(attributes, "ome");
    let text = r#"{"c":Infinity,"ome":{"a":{"b":[NaN]},"d":"changed"}}"#;
    assert_eq!(attributes_text(&group), text);
}
