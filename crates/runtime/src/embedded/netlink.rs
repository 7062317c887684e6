//! The only thing we need netlink for: bringing the loopback interface up.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// In a new network namespace the loopback interface is always the first.
const LOOPBACK: i32 = 1;

/// `ip link set lo up`, in the calling thread's network namespace.
pub(crate) fn loopback_up() -> io::Result<()> {
    // Protocol 0 of this family is routing.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &link_up(LOOPBACK), SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    acknowledged(&answer[..len])
}

/// Encodes `RTM_NEWLINK` for one interface, with the "up" flag set and nothing else changed.
fn link_up(index: i32) -> [u8; 32] {
    const NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 0x1 | 0x4;
    const UP: u32 = 1;
    let mut message = [0u8; 32];
    message[0..4].copy_from_slice(&32u32.to_ne_bytes());
    message[4..6].copy_from_slice(&NEWLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_AND_ACK.to_ne_bytes());
    message[8..12].copy_from_slice(&1u32.to_ne_bytes());
    message[20..24].copy_from_slice(&index.to_ne_bytes());
    message[24..28].copy_from_slice(&UP.to_ne_bytes());
    message[28..32].copy_from_slice(&UP.to_ne_bytes());
    message
}

fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a netlink answer too short to be one")),
    }
}
