//! Stores the error scope and the error uniformity of communicators.

pub mod communicators;
pub mod error_scope;
pub mod error_uniformity;
pub mod info_keys;
pub mod info_property;
