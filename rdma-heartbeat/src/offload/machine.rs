//! Locates the machine that serves a host, and builds the command to start a program there.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, channel};

/// The command that starts the service: the remote shell passes the last word to a shell there.
pub fn command(agent: &str, server: &str, host: &str) -> Vec<String> {
    // The path with which this program was started; by now another release may be there.
    let daemon = std::env::args().next().filter(|path| path.starts_with('/')).unwrap_or_else(|| "ringwatchd".into());
    let quoted = daemon.replace('\'', r"'\''");
    let remote = format!("exec '{quoted}' --for {host}");
    agent.split_whitespace().map(str::to_owned).chain([server.to_owned(), remote]).collect()
}

/// Resolves a name such as `user@machine` in a thread: the resolution may take long, or for ever.
pub fn resolve(server: &str) -> Receiver<IpAddr> {
    let (sender, receiver) = channel();
    let name = server.rsplit('@').next().unwrap_or_default().to_owned();
    match name.parse() {
        Ok(address) => drop(sender.send(address)),
        Err(_) => {
            let ask = move || {
                let address = (name.as_str(), 0).to_socket_addrs().ok()?.next()?;
                sender.send(address.ip()).ok()
            };
            // Without a thread there is no address.
            let _ = std::thread::Builder::new().name("resolve".into()).spawn(ask);
        }
    }
    receiver
}

/// The address of this machine from which packets to a peer are sent.
pub fn towards(peer: IpAddr) -> Option<IpAddr> {
    let unspecified: SocketAddr = if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(unspecified).ok()?;
    // Nothing is sent: the kernel only selects a route.
    socket.connect((peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_started_by_the_remote_shell() {
        let words = command("rsh -x", "user@dpu1", "n1");
        assert_eq!(words[..3], ["rsh", "-x", "user@dpu1"]);
        assert!(words[3].starts_with("exec '/") && words[3].ends_with("' --for n1"), "{}", words[3]);
    }

    #[test]
    fn addresses_are_known_for_names_with_a_user() {
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(resolve("somebody@127.0.0.1").recv(), Ok(local));
        assert!(resolve("somebody@localhost").recv().is_ok_and(|address| address.is_loopback()));
        assert_eq!(towards(local), Some(local));
    }
}
