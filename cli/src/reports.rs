//! The reports of the daemons of this node: those of this user, for root those of all users.

use std::io;

use rdma_heartbeat::report::status::{self, Report};

use crate::wanted::Wanted;

/// What has not answered, and why.
pub type Silent = Vec<(String, io::Error)>;

/// The reports by user, job and node, and the sockets that have not answered.
///
/// # Errors
/// If the kernel's list of sockets cannot be read.
pub fn ask(wanted: &Wanted) -> io::Result<(Vec<Report>, Silent)> {
    let names = status::sockets(status::PREFIX)?;
    let (mut reports, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in status::ask_all(names) {
        match answer {
            Ok(report) => reports.push(report),
            Err(error) => silent.push((name, error)),
        }
    }
    reports.retain(|report| wanted.is(&report.job, report.slurm_job.as_deref()));
    reports.sort_by(|a, b| (a.user, &a.job, a.node).cmp(&(b.user, &b.job, b.node)));
    Ok((reports, silent))
}
