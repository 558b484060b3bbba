//! `ringwatchd`, the per-node offload daemon, and the transports that carry the protocol of `propagation`.
//!
//! The client side is what the plugin in the runtime daemons and the component in the ranks share with the daemon, and what
//! of the plugin needs nothing of PMIx and so can be tested here:
//!
//! | module | one idea |
//! |---|---|
//! | [`launch`] | what plugin and daemon say to each other |
//! | [`segment`] | the node's failure log and the slots of its ranks, in shared memory |
//! | [`parameters`], [`defaults`], [`order`] | what a user can set, what of Open MPI changes then, and the order of the ring |
//! | [`jobs`], [`ports`], [`postponed`] | spawned jobs: numbers of their ranks, where they meet, who is yet to be heard of |
//! | [`request`] | what `mpirun` was asked for: no I/O |
//! | [`refusing`] | telling node 0 that a node takes no part in the job |
//! | [`stall`] | whether a `ringwatchd` hangs |
//!
//! The others are the daemon itself and its command line tool:
//!
//! | module | one idea |
//! |---|---|
//! | [`daemon`] | the loop that joins all the others |
//! | [`job`] | which ranks and nodes are dead, and when that ends the job: no I/O |
//! | [`rendezvous`] | how the nodes learn each other's addresses: no I/O |
//! | [`versions`] | that one job runs the same release everywhere: no I/O |
//! | [`stopped`] | when a process counts as stopped: no I/O |
//! | [`suspension`] | when the whole job is suspended, which is nobody's failure: no I/O |
//! | [`network`] | messages over a transport, with what was refused |
//! | [`transport`] | datagrams between nodes |
//! | [`watch`] | the ranks of this node |
//! | [`runtime`] | this node's runtime daemon |
//! | [`launched`] | who was started for a rank, before any has registered |
//! | [`inquiry`], [`bell`] | asking what may take its time away from the loop, and waking that up |
//! | [`pin`] | a process that is held fast while it is watched |
//! | [`procfs`] | what the kernel says about a process: no I/O |
//! | [`lifeline`] | hearing of a death at its beginning |
//! | [`control`] | the socket to the plugin |
//! | [`seal`] | packets of a connection, with the key of the job: no I/O |
//! | [`greeting`] | how a tool and the daemon make sure of each other |
//! | [`calling`] | how a tool calls all daemons of a node |
//! | [`status`] | what `ringwatch status` shows |
//! | [`offload`] | a host whose part in the ring another machine carries |
//! | [`history`] | what `ringwatch events` shows: what happened, on every node |
//! | [`regularity`] | how regularly heartbeats come and the daemon turns: no I/O |
//! | [`distribution`] | how often which time was measured: no I/O |
//! | [`parameter_file`] | a value set in the file of parameters, for `ringwatch calibrate` |
//! | [`leftovers`] | shared memory that ranks left behind |
//! | [`values`] | what the command line of `ringwatch` says: no I/O |
//! | [`terminal`] | text that acts on no terminal: no I/O |
//! | [`interfaces`] | names, addresses and subnets of interfaces: no I/O |
//! | [`sink`] | files that are written without waiting |
//! | [`allocations`], [`poller`], [`clock`], [`random`], [`logging`], [`setup`], [`privileges`] | the operating system |

pub mod allocations;
pub mod bell;
pub mod calling;
pub mod clock;
pub mod control;
pub mod daemon;
pub mod defaults;
pub mod distribution;
pub mod greeting;
pub mod history;
pub mod inquiry;
pub mod interfaces;
pub mod job;
pub mod jobs;
pub mod launch;
pub mod launched;
pub mod leftovers;
pub mod lifeline;
pub mod logging;
pub mod network;
pub mod offload;
pub mod order;
pub mod parameter_file;
pub mod parameters;
pub mod pin;
pub mod poller;
pub mod ports;
pub mod postponed;
pub mod privileges;
pub mod procfs;
pub mod random;
pub mod refusing;
pub mod regularity;
pub mod rendezvous;
pub mod request;
pub mod runtime;
pub mod seal;
pub mod segment;
pub mod setup;
pub mod sink;
pub mod stall;
pub mod status;
pub mod stopped;
pub mod suspension;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod transport;
pub mod values;
pub mod versions;
pub mod watch;
