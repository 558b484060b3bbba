//! The parameters of the components in the ranks: names, defaults, help.
//!
//! `mpi-layer` registers each as an MCA parameter of Open MPI; the manual page has them, too.

use std::ffi::CStr;

/// One parameter as the user sees it.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Framework and component.
    pub component: &'static str,
    /// Name after the component.
    pub name: &'static CStr,
    /// Default, as text.
    pub default: &'static str,
    /// Help text.
    pub help: &'static CStr,
}

/// Which operations a death interrupts.
pub const ERROR_SCOPE: Definition = Definition {
    component: "coll_ringwatch",
    name: c"error_scope",
    default: "local",
    help: c"Error scope of communicators whose info does not say otherwise: whose death interrupts their operations",
};
/// Which operations succeed at all members or at none.
pub const ERROR_UNIFORM: Definition = Definition {
    component: "coll_ringwatch",
    name: c"error_uniform",
    default: "local",
    help: c"Error uniformity of communicators whose info does not say otherwise: which collective operations \
        succeed at all of their members or at none",
};
/// Whether ranks are replaced.
pub const RECOVERY: Definition = Definition {
    component: "hook_ringwatch",
    name: c"recovery",
    default: "none",
    help: c"What happens to a rank that dies: nothing (none); message logging (log): a spare runs the program from \
        its start and gets its messages again, and nobody else rolls back; replication (replicate): each rank has \
        several processes, whose messages are compared, and the others go on",
};
/// How many replace others.
pub const SPARES: Definition = Definition {
    component: "hook_ringwatch",
    name: c"spares",
    default: "0",
    help: c"How many processes of the job are spares, which wait in MPI_Init: the last ones. The program has as \
        many ranks less",
};
/// What replaces where no spare is left.
pub const SPAWN: Definition = Definition {
    component: "hook_ringwatch",
    name: c"spawn",
    default: "true",
    help: c"Whether a process is spawned in place of a dead rank under message logging, where no spare is left. \
        Without it a death is an error of MPI there",
};
/// How much is kept for a replacement.
pub const LOG_LIMIT: Definition = Definition {
    component: "hook_ringwatch",
    name: c"log_limit",
    default: "512",
    help: c"MiB of sent messages that a rank keeps under message logging; beyond that no death is repaired any more",
};
/// Where checkpoints are.
pub const CHECKPOINTS: Definition = Definition {
    component: "hook_ringwatch",
    name: c"checkpoints",
    default: "",
    help: c"Folder for the checkpoints that a program writes with the functions of ringwatch.h: an absolute path \
        that all nodes see; 'partner': in the memory of ranks of other nodes, under message logging",
};

/// How many processes each rank has.
pub const REPLICAS: Definition = Definition {
    component: "hook_ringwatch",
    name: c"replicas",
    default: "2",
    help: c"How many replicas each rank has under replication, 2 or 3; only some ranks with a list of them, such \
        as 2:0,3. The program has as many ranks less",
};
/// How their messages are compared.
pub const REPLICAS_METHOD: Definition = Definition {
    component: "hook_ringwatch",
    name: c"replicas_method",
    default: "asynchash",
    help: c"What replicas send and when it is compared: alltoall (all copies, before a receive returns), \
        msgplushash (one copy and a digest, before), async (all copies, later), asynchash (one copy and a digest, \
        later)",
};
/// What a difference leads to.
pub const REPLICAS_ON_MISMATCH: Definition = Definition {
    component: "hook_ringwatch",
    name: c"replicas_on_mismatch",
    default: "end",
    help: c"What happens when replicas differ and no majority settles it: the job ends (end), or it goes on with \
        the data of the first replica (report). A sentence says what differs",
};
/// How much of what was sent is kept.
pub const REPLICAS_MEMORY: Definition = Definition {
    component: "hook_ringwatch",
    name: c"replicas_memory",
    default: "64",
    help: c"MiB of sent messages that a replica keeps until all receivers have verified them; beyond that its next \
        send waits",
};
/// How much of what was received is not verified.
pub const REPLICAS_UNVERIFIED: Definition = Definition {
    component: "hook_ringwatch",
    name: c"replicas_unverified",
    default: "4096",
    help: c"Messages that a replica has received and that are not verified yet; at this number its next receive \
        waits until one is",
};
/// Bits that are flipped.
pub const CORRUPT: Definition = Definition {
    component: "hook_ringwatch",
    name: c"corrupt",
    default: "",
    help: c"Bits that are flipped under replication, for tests: a list of RANK[.REPLICA]:CALL[:BIT][@WHERE], where \
        CALL is the number of a send or random/SEED/N, and WHERE is buffer, memory or wire",
};

/// All of them.
pub const DEFINITIONS: [Definition; 13] = [
    ERROR_SCOPE,
    ERROR_UNIFORM,
    RECOVERY,
    SPARES,
    SPAWN,
    LOG_LIMIT,
    CHECKPOINTS,
    REPLICAS,
    REPLICAS_METHOD,
    REPLICAS_ON_MISMATCH,
    REPLICAS_MEMORY,
    REPLICAS_UNVERIFIED,
    CORRUPT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spelling::OF_RANKS;

    #[test]
    fn the_manual_lists_every_parameter_with_its_default_and_no_name_is_taken_for_a_misspelling() {
        let manual = include_str!("../../docs/parameters.md");
        let names = DEFINITIONS.map(|one| format!("{}_{}", one.component, one.name.to_str().unwrap()));
        assert_eq!(names, OF_RANKS);
        for (name, Definition { default, .. }) in names.iter().zip(DEFINITIONS) {
            let default = if default.is_empty() { String::new() } else { format!("`{default}` ") };
            assert!(manual.contains(&format!("| `{name}` | {default}|")), "{name}");
        }
    }
}
