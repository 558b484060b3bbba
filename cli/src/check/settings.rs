//! The parameters of jobs that matter here, as PMIx finds them in the environment and in its parameter files.

use std::process::Command;

/// What `pmix_info` writes before the name of one of ringwatch's parameters.
const PREFIX: &str = "mca:psensor:ringwatch:param:psensor_ringwatch_";
/// Carrier of heartbeats that asks for RDMA.
const VERBS: &str = "verbs";

/// Parameters without the command line of `mpirun`; what PMIx does not know is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `psensor_ringwatch_port_range`.
    pub port_range: String,
    /// `psensor_ringwatch_if_include`.
    pub if_include: String,
    /// Whether `psensor_ringwatch_transport` asks for RDMA.
    pub wants_rdma: bool,
    /// Hosts with the machines that serve them: `psensor_ringwatch_offload`.
    pub offload: Vec<(String, String)>,
}

impl Settings {
    /// Asks PMIx; without it, or without ringwatch's component, there are none.
    pub fn read() -> Self {
        let words = ["--parsable", "--param", "psensor", "ringwatch"];
        let output = Command::new("pmix_info").args(words).output();
        Self::of(&output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default())
    }

    /// From the answer of `pmix_info`.
    fn of(answer: &str) -> Self {
        let value = |name: &str| {
            let lines = answer.lines().filter_map(|line| line.trim().strip_prefix(PREFIX)?.strip_prefix(name));
            let mut values = lines.filter_map(|rest| rest.strip_prefix(":value:"));
            values.next().unwrap_or_default().trim_matches('"').trim().to_owned()
        };
        let pair = |text: &str| {
            let (host, machine) = text.split_once('=')?;
            Some((host.trim().to_owned(), machine.trim().to_owned()))
        };
        Self {
            port_range: value("port_range"),
            if_include: value("if_include"),
            wants_rdma: value("transport") == VERBS,
            offload: value("offload").split(',').filter_map(pair).collect(),
        }
    }

    /// The machine that serves this host, whose name may be shortened to its first part.
    pub fn machine_of(&self, host: &str) -> Option<&str> {
        let is_it = |name: &str| name == host || Some(name) == host.split('.').next();
        self.offload.iter().find(|(name, _)| is_it(name)).map(|(_, machine)| machine.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_that_pmix_tells() {
        let answer = "mca:psensor:ringwatch:param:psensor_ringwatch_port_range:value:40000-40099
mca:psensor:ringwatch:param:psensor_ringwatch_port_range:source:file
mca:psensor:ringwatch:param:psensor_ringwatch_if_include:value:\"eth0,10.0.0.0/8\"
mca:psensor:ringwatch:param:psensor_ringwatch_transport:value:verbs
mca:psensor:ringwatch:param:psensor_ringwatch_offload:value:n1=dpu1, n2=dpu2\n";
        let settings = Settings::of(answer);
        assert_eq!((&*settings.port_range, &*settings.if_include), ("40000-40099", "eth0,10.0.0.0/8"));
        assert!(settings.wants_rdma);
        assert_eq!((settings.machine_of("n2.cluster"), settings.machine_of("n3")), (Some("dpu2"), None));
        assert_eq!(Settings::of("pmix_info: not found"), Settings::default());
    }
}
