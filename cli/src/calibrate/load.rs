//! `ringwatch load`: keeps a node busy for a while, as ranks do that compute.

use std::hint::black_box;
use std::num::NonZero;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use cli::values::time;

/// Memory that a thread goes through, in words: more than a processor keeps near.
const WORDS: usize = 1 << 20;
/// Threads per processor unless said otherwise: nodes are overloaded at times.
const PER_PROCESSOR: u32 = 2;

/// The command line of `ringwatch load`.
#[derive(Args)]
pub struct Arguments {
    /// For how long
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Duration,
    /// Number of busy threads [default: two per processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
}

/// Computes, or only waits if there are no threads to compute.
pub fn load(&Arguments { time, threads }: &Arguments) -> ExitCode {
    let until = Instant::now() + time;
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.unwrap_or(PER_PROCESSOR.saturating_mul(u32::try_from(processors).unwrap_or(1)));
    let workers: Vec<_> = (0..threads)
        .filter_map(|number| std::thread::Builder::new().spawn(move || work(u64::from(number), until)).ok())
        .collect();
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    for worker in workers {
        let _ = worker.join();
    }
    ExitCode::SUCCESS
}

/// Arithmetic on memory, here and there.
fn work(seed: u64, until: Instant) {
    let mut memory = vec![seed; WORDS];
    let mut place = seed;
    while Instant::now() < until {
        for _ in 0..WORDS {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let word = &mut memory[(place >> 40) as usize % WORDS];
            *word = word.wrapping_add(place).rotate_left(7);
        }
        black_box(&memory);
    }
}
