//! Gives the shared library the name that it is installed under, so that programs find it by that.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libforeshore.so.0");
}
