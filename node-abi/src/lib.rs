//! Defines the binary interfaces between the component in the ranks, the plugin in the runtime daemons, `ringwatchd`
//! and the command line tool:
//!
//! | module | subject |
//! |---|---|
//! | [`segment`] | the node's failure log and the slots of its ranks, in shared memory |
//! | [`lifeline_lock`] | the lock in a slot that reveals a rank's death |
//! | [`defaults`] | defaults of Open MPI that ranks of a fault-tolerant job change |
//! | [`launch`] | packets between plugin and daemon |
//! | [`event_loggers`] | packets between ranks and the event logger of their node, and the nodes of a rank's loggers |
//! | [`group_watch`] | what a rank tells of its group of recommended processes |
//! | [`framed_output`] | output of a rank that several processes print: no I/O |
//! | [`seal`] | packets of a connection, authenticated with the key of the job: no I/O |
//! | [`greeting`] | mutual authentication of a tool and the daemon |
//! | [`versions`] | check that one job runs the same release everywhere: no I/O |
//! | [`refusing`] | reports to node 0 that a node takes no part in the job |
//! | [`parameters`], [`rank_parameters`], [`spelling`], [`order`], [`offload_map`] | the user's parameters, misspelt names, the order of the ring, and the machine that runs a host's part in it |
//! | [`hosts`] | names of hosts: no I/O |
//! | [`rank_environment`] | the rank as which a process was started |
//!
//! Only a runtime daemon can load the plugin. So the parts of it that do not need PMIx are here, where they can be
//! tested:
//!
//! | module | subject |
//! |---|---|
//! | [`jobs`], [`ports`], [`postponed`] | spawned jobs: numbers of their ranks, ports, and calls that wait for unknown jobs |
//! | [`components`] | check that the ranks of all nodes have the components, or none: no I/O |
//! | [`request`] | requests in the command line and environment of `mpirun`: no I/O |
//! | [`losses`] | messages to the user about each loss: no I/O |
//! | [`loss_program`] | the user's program for each loss |
//! | [`stall`] | detection of a hung `ringwatchd` |
//! | [`leftovers`] | shared memory that ranks left behind |

pub mod components;
pub mod defaults;
pub mod event_loggers;
pub mod framed_output;
pub mod greeting;
pub mod group_watch;
pub mod hosts;
pub mod jobs;
pub mod launch;
pub mod leftovers;
pub mod lifeline_lock;
pub mod loss_program;
pub mod losses;
pub mod offload_map;
pub mod order;
pub mod parameters;
pub mod ports;
pub mod postponed;
pub mod rank_environment;
pub mod rank_parameters;
mod rank_runs;
pub mod refusing;
pub mod request;
pub mod seal;
pub mod segment;
pub mod spelling;
pub mod stall;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, reason = "each is named by what it does")]
pub mod testing;
pub mod versions;
