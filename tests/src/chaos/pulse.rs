//! How well this machine lets processes run: what is to happen in time cannot where nobody comes to run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::now;
use crate::job::TIMEOUT;

/// How often it wants to run.
const BEAT: Duration = Duration::from_millis(10);

/// A thread without any privilege that wants to run regularly, until this is dropped.
pub struct Pulse {
    ends: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<(Duration, Duration)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Begins to measure.
    #[must_use]
    pub fn begin() -> Self {
        let (ends, late) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (seen, noted) = (Arc::clone(&ends), Arc::clone(&late));
        let thread = thread::spawn(move || beat(&seen, &noted));
        Self { ends, late, thread: Some(thread) }
    }

    /// When it ran again after a sixth of the daemons' timeout or more, and for how long it had not.
    #[must_use]
    pub fn late(&self) -> Vec<(Duration, Duration)> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn beat(ends: &AtomicBool, late: &Mutex<Vec<(Duration, Duration)>>) {
    let mut last = now();
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(BEAT);
        let time = now();
        let missed = time.saturating_sub(last + BEAT);
        if missed > TIMEOUT / 6 {
            late.lock().unwrap_or_else(PoisonError::into_inner).push((time, missed));
        }
        last = time;
    }
}
