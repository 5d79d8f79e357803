//! Which addresses a crawl may connect to.
//!
//! A page can name any host, and whoever owns a name can point it at any address: at this machine's
//! own services, at a cloud's metadata server, at the router. So special addresses are refused
//! unless the configuration lets them through.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::DownloaderConfig;

/// Decides about addresses: public ones pass, special ones only as configured.
#[derive(Debug)]
pub(crate) struct AddressPolicy {
    allow_all: bool,
    allowed: Vec<IpNet>,
}

impl AddressPolicy {
    /// The policy of a configuration that has passed its check.
    pub(crate) fn new(config: &DownloaderConfig) -> Self {
        Self {
            allow_all: config.allow_private_addresses,
            allowed: config.allow_networks.iter().filter_map(|text| parse_network(text)).collect(),
        }
    }

    /// The policy that lets everything through.
    pub(crate) fn allow_all() -> Self {
        Self { allow_all: true, allowed: Vec::new() }
    }

    /// What kind of special address this is, if it is one that may not be connected to.
    pub(crate) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        if self.allow_all {
            return None;
        }
        let kind = special_kind(address)?;
        let reached = reached_address(address);
        let allowed = self.allowed.iter().any(|network| network.contains(&address) || network.contains(&reached));
        (!allowed).then_some(kind)
    }
}

/// A network as people write it: `10.1.0.0/16`, `fd00::/8`, or a single address.
pub(crate) fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// The IPv4 special-purpose address registry of IANA (RFC 6890), and multicast (RFC 5771).
const SPECIAL_V4: [(Ipv4Net, &str); 15] = [
    (v4(0, 0, 0, 0, 8), "an unspecified address"),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(100, 64, 0, 0, 10), "a carrier's shared address"),
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 0, 0, 0, 24), "an address of protocol assignments"),
    (v4(192, 0, 2, 0, 24), "a documentation address"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay address"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(198, 18, 0, 0, 15), "a benchmarking address"),
    (v4(198, 51, 100, 0, 24), "a documentation address"),
    (v4(203, 0, 113, 0, 24), "a documentation address"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    // Holds 255.255.255.255, the broadcast address, too.
    (v4(240, 0, 0, 0, 4), "a reserved or broadcast address"),
];

/// The IPv6 special-purpose address registry of IANA, the more special before the less. Whatever is
/// not global unicast (2000::/3, RFC 4291 §2.4) is special even where no row names it.
const SPECIAL_V6: [(Ipv6Net, &str); 12] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "an unspecified address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "a loopback address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4-compatible address"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a unique-local address"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "a link-local address"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a site-local address"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "a multicast address"),
    (v6([0x2001, 0x2, 0, 0, 0, 0, 0, 0], 48), "a benchmarking address"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "a documentation address"),
    // Teredo, ORCHID and their kin: tunnels and identifiers, none a web server's own address.
    // Anycast services and AS112 in there are no web servers either.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "an address of protocol assignments"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "a documentation address"),
    (v6([0x0064, 0xff9b, 0x1, 0, 0, 0, 0, 0], 48), "a local translation address"),
];

const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// RFC 6052 §2.1: the network's translator connects to the IPv4 address in the last 32 bits.
const NAT64: Ipv6Net = v6([0x0064, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// RFC 3056 §2: the IPv4 address of the tunnel's end stands in bits 16 to 48.
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

fn special_kind(address: IpAddr) -> Option<&'static str> {
    match reached_address(address) {
        IpAddr::V4(address) => SPECIAL_V4.iter().find(|(network, _)| network.contains(&address)).map(|(_, kind)| *kind),
        IpAddr::V6(address) => SPECIAL_V6
            .iter()
            .find(|(network, _)| network.contains(&address))
            .map(|(_, kind)| *kind)
            .or_else(|| (!GLOBAL_UNICAST.contains(&address)).then_some("a reserved address")),
    }
}

/// The address packets arrive at in the end: the IPv4 address inside a mapped, translated or
/// tunnelled IPv6 one, else the address itself.
fn reached_address(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(mapped) = v6.to_ipv4_mapped() {
        mapped.into()
    } else if NAT64.contains(&v6) {
        Ipv4Addr::from_bits(v6.to_bits() as u32).into()
    } else if SIX_TO_FOUR.contains(&v6) {
        Ipv4Addr::from_bits((v6.to_bits() >> 80) as u32).into()
    } else {
        address
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(s: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]), prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(allowed: &[&str]) -> AddressPolicy {
        let allow_networks = allowed.iter().map(|&text| text.to_owned()).collect();
        AddressPolicy::new(&DownloaderConfig { allow_networks, ..DownloaderConfig::default() })
    }

    fn check(address: &str, expected: Option<&str>) {
        assert_eq!(policy(&[]).refuses(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn public_addresses_pass() {
        for address in ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001:82a::200e"] {
            check(address, None);
        }
        // A public address stays public inside another notation.
        for address in ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"] {
            check(address, None);
        }
    }

    #[test]
    fn special_addresses_are_refused_by_name() {
        for (address, kind) in [
            ("0.0.0.0", "an unspecified address"),
            ("10.1.2.3", "a private address"),
            ("100.64.0.1", "a carrier's shared address"),
            ("100.127.255.255", "a carrier's shared address"),
            ("127.0.0.1", "a loopback address"),
            ("127.255.255.254", "a loopback address"),
            ("169.254.169.254", "a link-local address"),
            ("172.31.255.255", "a private address"),
            ("192.0.0.8", "an address of protocol assignments"),
            ("192.0.2.1", "a documentation address"),
            ("192.168.1.1", "a private address"),
            ("198.19.255.255", "a benchmarking address"),
            ("224.0.0.1", "a multicast address"),
            ("255.255.255.255", "a reserved or broadcast address"),
            ("::", "an unspecified address"),
            ("::1", "a loopback address"),
            ("::10.0.0.1", "an IPv4-compatible address"),
            ("::ffff:127.0.0.1", "a loopback address"),
            ("::ffff:10.0.0.1", "a private address"),
            ("64:ff9b::169.254.169.254", "a link-local address"),
            ("64:ff9b:1::1", "a local translation address"),
            ("2002:a00:1::1", "a private address"),
            ("2001:0:1::1", "an address of protocol assignments"),
            ("2001:db8::1", "a documentation address"),
            ("fd12::1", "a unique-local address"),
            ("fe80::1", "a link-local address"),
            ("ff02::1", "a multicast address"),
            ("4000::1", "a reserved address"),
        ] {
            check(address, Some(kind));
        }
        // Neighbours of the networks above.
        for address in ["9.255.255.255", "11.0.0.0", "100.128.0.0", "172.32.0.0", "198.20.0.0", "223.255.255.255"] {
            check(address, None);
        }
    }

    #[test]
    fn a_network_can_be_let_through() {
        let policy = policy(&["10.1.0.0/16", "192.168.7.7", "fd00::/8"]);
        let refuses = |address: &str| policy.refuses(address.parse().unwrap()).is_some();
        assert!(!refuses("10.1.255.1"));
        assert!(!refuses("::ffff:10.1.0.1"));
        assert!(!refuses("192.168.7.7"));
        assert!(!refuses("fd12::1"));
        assert!(refuses("10.2.0.1"));
        assert!(refuses("192.168.7.8"));
        assert!(refuses("::1"));
        assert_eq!(AddressPolicy::allow_all().refuses("127.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn networks_are_read() {
        for text in ["10.0.0.0/8", "10.0.0.1", "::1", "fd00::/8"] {
            assert!(parse_network(text).is_some(), "{text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0", "example.com", "::1/129"] {
            assert!(parse_network(text).is_none(), "{text}");
        }
    }

    proptest! {
        /// The standard library knows fewer special addresses; what it knows, we refuse.
        #[test]
        fn at_least_what_std_knows_is_refused(bits in any::<u32>()) {
            let address = Ipv4Addr::from(bits);
            let known = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_documentation() || address.is_broadcast()
                || address.is_unspecified();
            if known {
                prop_assert!(policy(&[]).refuses(address.into()).is_some());
            }
        }

        /// An IPv4 address gets one answer, however it is wrapped.
        #[test]
        fn wrapping_changes_nothing(bits in any::<u32>(), suffix in any::<u64>()) {
            let [a, b, c, d] = bits.to_be_bytes();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let plain = policy(&[]).refuses(IpAddr::V4(Ipv4Addr::from(bits)));
            let tunnel = u128::from(suffix) | u128::from(0x2002_u16) << 112 | u128::from(bits) << 80;
            for wrapped in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::from(tunnel),
            ] {
                prop_assert_eq!(policy(&[]).refuses(wrapped.into()), plain);
            }
        }
    }
}
