//! Finds the machine that runs a host's part in the ring.

use crate::launch::Parameters;

/// The machine that serves this host, according to the parameter `offload`; host names may be shortened to their first
/// part.
#[must_use]
pub fn server_of<'a>(parameters: &'a Parameters, host: &str) -> Option<&'a str> {
    let first = host.split('.').next();
    let is_meant = |name: &str| name == host || Some(name) == first;
    parameters.offload.iter().find(|(name, _)| is_meant(name)).map(|(_, server)| server.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_under_its_full_and_its_first_name() {
        let values = crate::parameters::DEFINITIONS.map(|definition| match definition.name {
            "offload" => "n1=dpu1,n2.cluster=user@10.0.0.2".to_owned(),
            _ => definition.default.to_owned(),
        });
        let parameters = crate::parameters::read(&values).unwrap().parameters;
        assert_eq!(server_of(&parameters, "n1"), Some("dpu1"));
        assert_eq!(server_of(&parameters, "n1.cluster"), Some("dpu1"));
        assert_eq!(server_of(&parameters, "n2.cluster"), Some("user@10.0.0.2"));
        assert_eq!((server_of(&parameters, "n2"), server_of(&parameters, "n11")), (None, None));
    }
}
