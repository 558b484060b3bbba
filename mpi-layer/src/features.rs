//! Lists the features that interpose on Open MPI's functions, in order of installation. Otherwise this library
//! interposes only after a death.

use platform::say::say;

use crate::agreement::era_guard;
use crate::cid::cid_hold;
use crate::constructors::{
    activation, comm_create_group, connect_accept, dist_graph, intercomm_create, intercomm_from_groups,
    split_create_idup, steps,
};
use crate::failure::{deaths_during_init, error_report, get_failed};
use crate::messages::tcp_to_the_dead::Connections;
use crate::messages::{dead_rendezvous, late_addresses, pending_receives, sends_to_the_dead};
use crate::needless_messages;
use crate::onesided::window;
use crate::uniform::pmpi_without_peers;
use openmpi_internals::communicator::Internals;
use openmpi_internals::interpose::{self, Feature, Installer, Missing};
use openmpi_internals::loaded::Library;

/// Installed when `MPI_Init` begins.
pub const FIRST: [Feature; 1] = [feature("messages that mean nothing are shown", false, needless_messages::install)];

/// Installed before the first communicator is made.
pub const BEFORE_COMMUNICATORS: [Feature; 2] = [
    feature("a death before the first communicator ends the rank", false, deaths_during_init::install),
    feature("agreements may hang after a death", false, era_guard::install),
];

/// Installed before processes are added, if ringwatch has Open MPI keep an entry for each.
pub const BEFORE_PROCESSES: [Feature; 1] =
    [feature("each rank looks up all others when it starts", false, late_addresses::install)];

/// Installed before the communicators of `MPI_Init` get their properties: a communicator of one member interposes on
/// the same functions again.
pub const BEFORE_PROPERTIES: [Feature; 1] =
    [feature("members with nothing to do are not told of failures", false, pmpi_without_peers::install)];

/// Installed at the end of `MPI_Init`, in this order.
pub const FEATURES: [Feature; 16] = [
    feature("late messages may reach a new communicator", true, cid_hold::install),
    feature("constructors of communicators may hang after a death", true, split_create_idup::install),
    feature("MPI_Dist_graph_create may hang after a death", true, dist_graph::install),
    feature("constructors of two groups may hang after a death", true, steps::install),
    feature("windows and files cannot be made by all members or by none", true, activation::install),
    feature("MPI_Comm_create_group fails beside a dead process", true, comm_create_group::install),
    feature("MPIX_Comm_get_failed does not look for deaths first", false, get_failed::install),
    feature("a window may hang while it is made after a death", false, window::install),
    feature("MPI_Intercomm_create may hang after a death", true, intercomm_create::install),
    feature("MPI_Intercomm_create_from_groups may hang after a death", true, intercomm_from_groups::install),
    feature(
        "MPI_Comm_accept, MPI_Comm_connect and MPI_Comm_spawn may hang after a death",
        true,
        connect_accept::install,
    ),
    feature("'ringwatch events' does not show the errors of MPI", false, error_report::install),
    feature("a message to a dead process may hang", false, Connections::install),
    feature("a large message of a dead process may hang", false, dead_rendezvous::install),
    feature("receives from any source may stay pending", false, pending_receives::install),
    feature("a message to a dead process may crash", false, sends_to_the_dead::install),
];

const fn feature(off: &'static str, needs_layout: bool, install: fn(&Installer) -> Result<(), Missing>) -> Feature {
    Feature { off, needs_layout, install }
}

/// Installs features. If this rank `speaks`, it reports those that are off.
pub fn install(features: &[Feature], speaks: bool) {
    let Some(library) = Library::loaded() else { return };
    let needs_layout = features.iter().any(|feature| feature.needs_layout);
    let fits = needs_layout && Internals::fitting().is_some();
    for (off, missing) in interpose::install(&library, fits, features) {
        if speaks {
            say(&format!("ringwatch: {missing}: {off}"));
        }
    }
}
