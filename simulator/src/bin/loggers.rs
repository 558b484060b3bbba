//! Simulates event loggers by themselves and writes what came of it to standard output as CSV: `scripts/bench logging`.
//!
//! `--quick`: fewer ranks, for a shorter time.

use simulator::loggers::{Costs, Deployment, Figures, Scenario, costs, run};

/// Ranks that save at the same time.
const RANKS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const QUICK_RANKS: [u32; 4] = [1, 16, 128, 1024];

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let ranks: &[u32] = if is_quick { &QUICK_RANKS } else { &RANKS };
    println!("costs,logger,ranks,batch,per_ms,mean_us,p99_us,store_processors");
    for costs in [costs::MEASURED, costs::THESIS] {
        for deployment in Deployment::ALL {
            // One-sided was not in the thesis.
            if costs != costs::THESIS || deployment != Deployment::OneSided {
                ranks.iter().for_each(|ranks| row(costs, deployment, *ranks, 1, is_quick));
            }
        }
    }
    for deployment in Deployment::ALL {
        row(costs::MEASURED, deployment, 128, 10, is_quick);
    }
}

fn row(costs: Costs, deployment: Deployment, ranks: u32, batch: u64, is_quick: bool) {
    // More make the figures no better: the machines have no chance in them, and the times little.
    let least = if is_quick { 10_000 } else { 100_000 };
    let determinants = (batch * u64::from(100 * ranks)).max(least);
    let scenario = Scenario { deployment, costs, ranks, batch, determinants, seed: 1 };
    let Figures { rate, mean, percentile_99, store_processors } = run(&scenario);
    println!(
        "{},{},{ranks},{batch},{rate:.1},{:.2},{:.2},{store_processors:.3}",
        costs.name,
        deployment.name().replace(',', " with"),
        mean / 1e3,
        percentile_99 as f64 / 1e3
    );
}
