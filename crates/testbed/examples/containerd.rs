//! A private containerd to play with: `cargo run -p rubelet-testbed --example containerd [1.6|2]`. It is gone again after
//! Enter.

use std::io::Read as _;

use rubelet_testbed::{BUSYBOX, Containerd, Flavor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flavor = match std::env::args().nth(1).as_deref() {
        None | Some("2") => Flavor::V2,
        Some("1.6") => Flavor::V1_6,
        Some(other) => return Err(format!("{other} is not a containerd that we have; say 1.6 or 2").into()),
    };
    let containerd = Containerd::start(flavor)?;
    println!("{}", containerd.endpoint());
    eprintln!("it has the image {BUSYBOX}; press Enter to take it down");
    let _ = std::io::stdin().read(&mut [0])?;
    containerd.take_down()?;
    Ok(())
}
