//! rubelet
fn main() {}
