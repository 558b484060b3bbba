//! Communicates with nodes, the plugin and tools.
//!
//! | module | subject |
//! |---|---|
//! | [`rendezvous`] | exchange of the nodes' addresses: no I/O |
//! | [`network`] | messages over a transport, with statistics of refused ones |
//! | [`control`] | the socket to the plugin |
//! | [`calling`] | a tool's calls to all daemons of a node |
//! | [`door`] | a local socket for tools, protected against other processes |
//! | [`misplaced`] | check that node 0 knows this node by its own address |

pub mod calling;
pub mod control;
pub mod door;
pub mod misplaced;
pub mod network;
pub mod rendezvous;
