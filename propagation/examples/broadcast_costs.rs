//! What a broadcast costs with each strategy: `cargo run --release -p propagation --example broadcast_costs [LARGEST]`.
//!
//! Real members on a network without loss, where every message takes the same time. LARGEST is the largest number of
//! nodes, by default 16384; a million nodes take about a gigabyte and some minutes.

#[path = "../tests/strategies/wave.rs"]
mod wave;

use propagation::{RingOrder, Strategy};
use wave::Wave;

fn main() {
    let largest = match std::env::args().nth(1).map(|argument| argument.parse()) {
        None => 1 << 14,
        Some(Ok(largest)) => largest,
        Some(Err(_)) => {
            eprintln!("broadcast_costs: the largest number of nodes must be a number");
            std::process::exit(2);
        }
    };
    println!("messages per node and hops until everybody has the news; f crashes are floor(log2 n) - 1 random nodes");
    println!("{:>8} {:>4} | {:>25} | {:>34}", "", "", "circulant", "tree");
    println!(
        "{:>8} {:>4} | {:>6} {:>4} {:>13} | {:>6} {:>4} {:>13} {:>8}",
        "n", "f", "quiet", "hops", "f crashes", "quiet", "hops", "f crashes", "in time"
    );
    for universe in [16_u32, 64, 256, 1000, 4096, 16_384, 65_536, 262_144, 1_000_000] {
        if universe > largest {
            break;
        }
        let failures = universe.ilog2() - 1;
        let cost = |strategy, crashes: u32| {
            let mut wave = Wave::new(universe, strategy, &RingOrder::default());
            // Fractions of the golden ratio: as good as random, and the same in every run.
            let node = |crash: u32| (u64::from(crash.wrapping_mul(2_654_435_769)) * u64::from(universe)) >> 32;
            (1..=crashes).for_each(|crash| wave.crash(node(crash) as u32, 0));
            wave.run(0);
            assert!(wave.hops > 0 && wave.left_out().is_empty(), "everybody alive has the news");
            let alive = f64::from(universe - crashes);
            (f64::from(wave.total()) / alive, wave.hops)
        };
        let (circulant, hops) = cost(Strategy::Circulant, 0);
        let (struck, _) = cost(Strategy::Circulant, failures);
        print!("{universe:>8} {failures:>4} | {circulant:>6.2} {hops:>4} {struck:>13.2} | ");
        let (tree, hops) = cost(Strategy::Tree, 0);
        let (struck, time) = cost(Strategy::Tree, failures);
        println!("{tree:>6.2} {hops:>4} {struck:>13.2} {time:>8}");
    }
}
