//! The committed header is what cbindgen makes of the sources.

use std::path::Path;

/// To change the header, change the sources, then run this with `FORESHORE_BLESS=1`.
#[test]
fn the_header_is_up_to_date() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    cbindgen::generate(crate_dir).expect("the sources can be read as an interface").write(&mut made);
    let made = String::from_utf8(made).expect("a header is text");
    let path = crate_dir.join("include/foreshore.h");
    if std::env::var_os("FORESHORE_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "include/foreshore.h is out of date; make it again with\n  \
         FORESHORE_BLESS=1 cargo test -p foreshore-capi --test header"
    );
}
