//! Locks, whatever happened to a thread that held one.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Waits for the lock. Takes it from a thread that has panicked as well.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The same without waiting: `None` if another thread, or this one, holds the lock.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Ok(guard) => Some(guard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_thread_that_has_panicked_is_taken() {
        static VALUE: Mutex<u32> = Mutex::new(7);
        let holder = std::thread::spawn(|| {
            let _held = lock(&VALUE);
            panic!("while it holds the lock");
        });
        assert!(holder.join().is_err());
        assert_eq!(*lock(&VALUE), 7);
        assert_eq!(try_lock(&VALUE).map(|value| *value), Some(7));
    }

    #[test]
    fn a_held_lock_is_not_taken_twice() {
        let value = Mutex::new(0);
        let held = lock(&value);
        assert!(try_lock(&value).is_none());
        drop(held);
        assert!(try_lock(&value).is_some());
    }
}
