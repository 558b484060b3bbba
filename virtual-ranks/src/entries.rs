//! The functions of MPI that the layer stands in front of.

pub mod clocks;
pub mod collectives;
pub mod communicators;
pub mod completion;
pub mod failures;
pub mod graphs;
pub mod groups;
pub mod messages;
pub mod probes;
pub mod processors;
pub mod topologies;

use mpi_entry::entries::Handler;

/// All handlers.
pub fn all() -> Vec<Handler> {
    let lists = [
        messages::HANDLERS,
        probes::HANDLERS,
        completion::HANDLERS,
        collectives::HANDLERS,
        communicators::HANDLERS,
        groups::HANDLERS,
        topologies::HANDLERS,
        graphs::HANDLERS,
        failures::HANDLERS,
        processors::HANDLERS,
        clocks::HANDLERS,
    ];
    lists.concat()
}

#[cfg(test)]
mod tests {
    use mpi_entry::functions::{Class, FUNCTIONS};

    /// docs/message-logging.md names them.
    const NOT_COVERED: &[&str] = &[
        "Psend_init",
        "Pready",
        "Pready_range",
        "Pready_list",
        "Precv_init",
        "Parrived",
        "Comm_create_from_group",
        "Intercomm_create",
        "Intercomm_create_from_groups",
        "Intercomm_merge",
        "Comm_remote_size",
        "Comm_remote_group",
    ];

    #[test]
    fn functions_that_communicate_are_covered_once_but_for_partitioned_and_intercommunicators() {
        let handled: Vec<&str> = super::all().iter().map(|handler| handler.name).collect();
        let logged = FUNCTIONS.iter().filter(|function| function.class == Class::Logged);
        let missing: Vec<&str> = logged.map(|function| function.name).filter(|name| !handled.contains(name)).collect();
        assert_eq!(missing, NOT_COVERED);
        let twice: Vec<&&str> =
            handled.iter().filter(|name| handled.iter().filter(|other| other == name).count() > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
