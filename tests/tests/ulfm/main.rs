//! What ULFM and the error properties promise to communicators.

mod agreements;
mod classes;
mod constructors;
mod ishrink;
mod profiling;
mod scope;
mod uniform;
