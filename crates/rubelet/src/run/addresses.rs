//! The addresses of this machine, as used by its pods and their probes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use tokio::sync::watch;

/// How often to check whether they have changed.
const PERIOD: Duration = Duration::from_secs(10);

/// Returns the address that this machine uses to reach others: that of the default route, else the first that an
/// interface has. `None` without a network.
pub(super) fn of_machine() -> Option<IpAddr> {
    // These addresses are reserved for documentation: they only select a route, and nothing is sent.
    by_route(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
        .or_else(|| {
            by_route(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
        })
        .or_else(|| first(&of_interfaces()))
}

/// Publishes the address whenever it changes. When the network goes down, the last address stays: most networks come
/// back unchanged.
pub(super) async fn follow(told: watch::Sender<Arc<[IpAddr]>>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(now) = of_machine() else { continue };
        told.send_if_modified(|known| {
            let is_news = **known != [now];
            if is_news {
                tracing::info!(address = %now, "the node has another address");
                *known = [now].into();
            }
            is_news
        });
    }
}

fn by_route(from: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// The addresses of the interfaces that are up.
fn of_interfaces() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let up = interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|interface| ip(interface.address.as_ref()?)).collect()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|address| address.ip().into());
    four.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// Returns the first address by which others can reach this machine, IPv4 first.
fn first(all: &[IpAddr]) -> Option<IpAddr> {
    let serves = |ip: &&IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    };
    let mut serving: Vec<&IpAddr> = all.iter().filter(serves).collect();
    serving.sort_by_key(|ip| ip.is_ipv6());
    serving.first().copied().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_route_the_first_address_that_others_can_use_is_taken() {
        let table: [(&[&str], Option<&str>); 5] = [
            (&["127.0.0.1", "::1"], None),
            (&["127.0.0.1", "169.254.3.4", "10.1.2.3", "10.9.9.9"], Some("10.1.2.3")),
            (&["fd00::7", "192.168.0.2"], Some("192.168.0.2")),
            (&["fe80::1", "fd00::7"], Some("fd00::7")),
            (&[], None),
        ];
        for (all, wanted) in table {
            let all: Vec<IpAddr> = all.iter().map(|ip| ip.parse().unwrap()).collect();
            assert_eq!(first(&all), wanted.map(|ip| ip.parse().unwrap()), "{all:?}");
        }
    }

    #[test]
    fn loopback_is_among_the_addresses_of_interfaces() {
        assert!(of_interfaces().contains(&Ipv4Addr::LOCALHOST.into()), "{:?}", of_interfaces());
    }
}
