//! Many runs on several threads. The results come in the order of the runs, whatever the number of threads.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Does `run(0)` to `run(runs - 1)` on so many threads. `done` is called after each, on the thread that did it.
pub fn batch<T: Send>(
    runs: u64,
    threads: NonZero<usize>,
    run: impl Fn(u64) -> T + Sync,
    done: impl Fn() + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let results = Mutex::new(vec![]);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs {
                return;
            }
            let result = run(number);
            results.lock().expect("a run that panics ends all").push((number, result));
            done();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(work);
        }
        work();
    });
    let mut results = results.into_inner().expect("a run that panics ends all");
    results.sort_by_key(|&(number, _)| number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// As many threads as the machine has processors for this process.
pub fn all_threads() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}
