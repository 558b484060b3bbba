//! Detects deaths in this rank and reports them to MPI and to the job's history.

pub mod deaths;
pub mod deaths_during_init;
pub mod error_class;
pub mod error_report;
pub mod get_failed;
pub mod hang_report;
pub mod progress_hook;
pub mod wakeup;
