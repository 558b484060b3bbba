//! What of the command line tool `ringwatch` needs no command line, so that the fuzzer reaches it.
//!
//! | module | one idea |
//! |---|---|
//! | [`axis`] | records in the order of their axis: no I/O |
//! | [`narrator`] | jobs that are followed, for people and programs: no I/O |
//! | [`metrics`] | reports in the text format of OpenMetrics: no I/O |
//! | [`timeline`] | a history for people: no I/O |
//! | [`values`] | what the command line says: no I/O |
//! | [`parameter_file`] | a value set in the file of parameters, for `ringwatch calibrate` |

pub mod axis;
pub mod metrics;
pub mod narrator;
pub mod parameter_file;
pub mod timeline;
pub mod values;
