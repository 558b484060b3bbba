//! Locks mutexes, including those that a panic has poisoned.

use std::sync::{Mutex, MutexGuard};

/// Waits for the lock. Ignores poisoning.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
