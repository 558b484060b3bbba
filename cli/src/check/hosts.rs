//! The names of hosts in a hostfile of Open MPI: no I/O.

/// The hosts in order, each once.
///
/// # Errors
/// A sentence if there is none, or a name that a remote shell would take for more than a name.
pub fn read(text: &str) -> Result<Vec<String>, String> {
    let mut hosts: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(name) = line.split([' ', '\t', ',', ':']).find(|word| !word.is_empty()) else { continue };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
        if name.starts_with('-') || !name.chars().all(is_plain) {
            return Err(format!("'{name}' is no name of a host"));
        }
        if !hosts.iter().any(|known| known == name) {
            hosts.push(name.to_owned());
        }
    }
    if hosts.is_empty() { Err("the hostfile names no host".into()) } else { Ok(hosts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_host_whatever_follows_its_name() {
        let text = "# nodes\nh1 slots=4\n\n  h2:2\nh1\nuser@h3.example # old\n";
        assert_eq!(read(text).unwrap(), ["h1", "h2", "user@h3.example"]);
        assert!(read("# none\n").is_err());
        for bad in ["-oProxyCommand=x", "h1;reboot", "$(x)"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
