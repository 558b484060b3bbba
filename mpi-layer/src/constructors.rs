//! Makes constructors of communicators, windows and files end at every member when a process dies.

pub mod activation;
pub mod comm_create_group;
pub mod connect_accept;
pub mod create_from_group;
pub mod creation_vote;
pub mod dist_graph;
pub mod dynamic_processes;
pub mod intercomm_create;
pub mod intercomm_from_groups;
mod leaders_exchange;
pub mod settle;
pub mod split_create_idup;
pub mod steps;
