//! From the hosts of a URL to a node that lets the client in.

use std::{fmt, io, net::SocketAddr, time::Duration};

use client_socket::Host;
use tokio::{net::lookup_host, time::timeout};

use super::{
    connect_error::{ConnectError, Failure},
    error::AmqpError,
};

/// The node at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node's host in the URL: a name, or an address without brackets.
    pub host: String,
    /// The address that the host led to.
    pub address: SocketAddr,
}

impl Peer {
    /// `host:port`, as in the URL.
    pub fn host_port(&self) -> String {
        Host { name: self.host.clone(), port: self.address.port() }.to_string()
    }
}

/// `host:port`, and the address behind a name: `broker.example:5672 (10.0.0.7)`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host_port())?;
        let ip = self.address.ip();
        if self.host.parse() == Ok(ip) { Ok(()) } else { write!(f, " ({ip})") }
    }
}

/// Opens a connection to the first address that accepts it. Hosts, and the addresses of each name, are tried in random
/// order, but `first` before all others and `last` after them. Each look-up of a name, and each attempt, may take
/// `limit`.
///
/// # Errors
///
/// Every host that was tried, with the error that it gave.
pub(crate) async fn open_any<T, F: Future<Output = Result<T, AmqpError>>>(
    hosts: &[Host],
    first: Option<&Peer>,
    last: Option<SocketAddr>,
    limit: Duration,
    open: impl Fn(Peer) -> F,
) -> Result<(T, Peer), ConnectError> {
    let mut failures = Failures::default();
    let mut left_for_last = Vec::new();
    let mut shuffled_hosts = shuffled(hosts.iter().enumerate());
    let is_first = |host: &Host| first.is_some_and(|peer| peer.host == host.name && peer.address.port() == host.port);
    shuffled_hosts.sort_by_key(|(_, host)| !is_first(host));
    for (place, host) in shuffled_hosts {
        let addresses = match look_up(host, limit).await {
            Ok(addresses) => addresses,
            Err(cause) => {
                failures.add(place, None, host.to_string(), cause);
                continue;
            }
        };
        let mut addresses = shuffled(addresses);
        addresses.sort_by_key(|address| first.is_none_or(|peer| peer.address != *address));
        for address in addresses {
            let peer = Peer { host: host.name.clone(), address };
            if last == Some(address) {
                left_for_last.push((place, peer));
                continue;
            }
            match attempt(limit, open(peer.clone())).await {
                Ok(opened) => return Ok((opened, peer)),
                Err(cause) => {
                    if failures.add(place, Some(address), peer.to_string(), cause) {
                        return Err(failures.into());
                    }
                }
            }
        }
    }
    for (place, peer) in left_for_last {
        match attempt(limit, open(peer.clone())).await {
            Ok(opened) => return Ok((opened, peer)),
            Err(cause) => {
                failures.add(place, Some(peer.address), peer.to_string(), cause);
            }
        }
    }
    Err(failures.into())
}

async fn look_up(host: &Host, limit: Duration) -> Result<Vec<SocketAddr>, AmqpError> {
    let found =
        attempt(limit, async { lookup_host((host.name.as_str(), host.port)).await.map_err(AmqpError::Connect) });
    let mut addresses: Vec<SocketAddr> = found.await?.collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        let none = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(AmqpError::Connect(none));
    }
    Ok(addresses)
}

async fn attempt<T>(limit: Duration, step: impl Future<Output = Result<T, AmqpError>>) -> Result<T, AmqpError> {
    timeout(limit, step).await.unwrap_or(Err(AmqpError::ConnectTimeout(limit)))
}

fn shuffled<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    fastrand::shuffle(&mut items);
    items
}

/// Errors so far, with their hosts' places in the URL. They are listed in the order of the URL, so that the same outage
/// always reads the same.
#[derive(Default)]
struct Failures(Vec<((usize, Option<SocketAddr>), Failure)>);

impl Failures {
    /// Adds an error. Returns whether it decides for all hosts.
    fn add(&mut self, place: usize, address: Option<SocketAddr>, host: String, cause: AmqpError) -> bool {
        let decides = cause.concerns_all_hosts();
        self.0.push(((place, address), Failure { host, cause }));
        decides
    }
}

impl From<Failures> for ConnectError {
    fn from(Failures(mut failures): Failures) -> Self {
        failures.sort_by_key(|(place, _)| *place);
        Self { failures: failures.into_iter().map(|(_, failure)| failure).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Mutex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn hosts(ports: impl IntoIterator<Item = u16>) -> Vec<Host> {
        ports.into_iter().map(|port| Host { name: "127.0.0.1".to_owned(), port }).collect()
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// The ports in the order in which they are tried if all fail.
    async fn tried(hosts: &[Host], last: Option<SocketAddr>) -> (Vec<u16>, ConnectError) {
        let tried = Mutex::new(Vec::new());
        let open = async |peer: Peer| {
            tried.lock().unwrap().push(peer.address.port());
            Err::<(), _>(AmqpError::HungUp)
        };
        let error = open_any(hosts, None, last, LIMIT, open).await.unwrap_err();
        (tried.into_inner().unwrap(), error)
    }

    #[tokio::test]
    async fn every_host_is_tried_in_random_order_and_the_one_just_lost_last() {
        let hosts = hosts(1..=4);
        let mut orders = HashSet::new();
        for _ in 0..1000 {
            let (mut order, error) = tried(&hosts, Some(address(3))).await;
            assert_eq!(order.pop(), Some(3));
            assert_eq!(order.iter().collect::<HashSet<_>>(), HashSet::from([&1, &2, &4]));
            orders.insert(order);
            let told: Vec<&str> = error.failures.iter().map(|failure| failure.host.as_str()).collect();
            assert_eq!(told, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"], "the order of the URL");
        }
        assert_eq!(orders.len(), 6, "every order of the others");
    }

    #[tokio::test]
    async fn the_one_that_is_to_be_tried_first_is() {
        for port in 1..=4 {
            let first = Peer { host: "127.0.0.1".to_owned(), address: address(port) };
            let ((), peer) = open_any(&hosts(1..=4), Some(&first), None, LIMIT, async |_| Ok(())).await.unwrap();
            assert_eq!(peer, first);
        }
    }

    #[tokio::test]
    async fn the_one_just_lost_is_tried_all_the_same() {
        let open = async |peer: Peer| if peer.address.port() == 1 { Ok(()) } else { Err(AmqpError::HungUp) };
        let ((), peer) = open_any(&hosts([1, 2]), None, Some(address(1)), LIMIT, open).await.unwrap();
        assert_eq!(peer.address, address(1));
    }

    #[tokio::test]
    async fn a_refusal_of_the_user_ends_the_search() {
        let tried = Mutex::new(0);
        let open = async |_| {
            *tried.lock().unwrap() += 1;
            Err::<(), _>(AmqpError::Authentication { user: "app".to_owned(), text: "403".to_owned() })
        };
        assert!(!open_any(&hosts(1..=4), None, None, LIMIT, open).await.unwrap_err().is_transient());
        assert_eq!(tried.into_inner().unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_is_each_addresss_own() {
        let started = tokio::time::Instant::now();
        let open = async |peer: Peer| if peer.address.port() == 9 { Ok(()) } else { std::future::pending().await };
        let ((), peer) = open_any(&hosts([1, 2, 9]), None, Some(address(9)), LIMIT, open).await.unwrap();
        assert_eq!((peer.address, started.elapsed().as_secs()), (address(9), 2 * LIMIT.as_secs()));
    }

    #[test]
    fn a_peer_is_told_by_its_name_and_its_address() {
        let peer =
            |host: &str, ip: &str| Peer { host: host.to_owned(), address: format!("{ip}:5672").parse().unwrap() };
        assert_eq!(peer("mq.example", "10.0.0.7").to_string(), "mq.example:5672 (10.0.0.7)");
        assert_eq!(peer("10.0.0.7", "10.0.0.7").to_string(), "10.0.0.7:5672");
        assert_eq!(peer("::1", "[::1]").to_string(), "[::1]:5672");
    }
}
