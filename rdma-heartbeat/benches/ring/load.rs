//! Processes that compute.

use std::process::{Child, Command, Stdio};

/// Two for each core. They end with this value.
pub struct Load(Vec<Child>);

impl Load {
    pub fn start(wanted: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let computing = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Self((0..if wanted { 2 * cores } else { 0 }).filter_map(|_| computing().ok()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
