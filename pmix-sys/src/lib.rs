//! The structs and constants of PMIx 5 that ringwatch uses (pmix_common.h), as bindgen makes them of the installed
//! headers.
//!
//! They are committed, so that a build needs no libclang. A test compares them with a fresh run of bindgen; `cargo test -p pmix-sys
//! -- --ignored` writes them anew.

#[allow(missing_docs, reason = "generated; PMIx's own documentation has them")]
#[allow(non_camel_case_types, reason = "PMIx's names")]
#[allow(unsafe_op_in_unsafe_fn, clippy::all, reason = "generated")]
#[rustfmt::skip]
mod v5;

pub use v5::*;
