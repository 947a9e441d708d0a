//! What tests of several workloads share.

/// Does this object of JSON have these fields, in this order, and no others? Others read it: that is a promise.
pub fn object_of(text: &str, fields: &str) -> serde_json::Value {
    let mut rest = text;
    for field in fields.split_whitespace() {
        let found = rest.split_once(&format!("\"{field}\":"));
        rest = found.unwrap_or_else(|| panic!("no {field} in {text}")).1;
    }
    let object: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(object.as_object().unwrap().len(), fields.split_whitespace().count(), "{text}");
    object
}
