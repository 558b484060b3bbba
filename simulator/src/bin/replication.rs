//! Simulates replicated ranks and writes what came of it to standard output as CSV: `scripts/bench replication --part
//! simulated`.
//!
//! `--quick`: one iteration. `--class A|B|C`, `--ranks N`, `--iterations N`, `--program NAME`: one pattern instead of
//! all.

use replication::method::Method;
use simulator::replication::patterns::{Pattern, Program};
use simulator::replication::{Costs, Figures, Scenario, costs, run};

/// Points of a line of open messages over time.
const POINTS: usize = 40;

/// The value of an option.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str) -> Option<u32> {
    option(name)?.parse().ok()
}

/// The class that the thesis has taken in its second environment, and iterations that are enough.
fn usual(program: Program) -> (usize, u32) {
    match program {
        Program::Bt => (1, 10),
        Program::Cg => (2, 4),
        Program::Ep => (2, 16),
        Program::Ft => (1, 3),
        Program::Is => (2, 10),
        Program::Lu => (1, 4),
        Program::Sp => (0, 20),
    }
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let programs: Vec<Program> =
        option("--program").map_or(Program::ALL.to_vec(), |name| name.parse().into_iter().collect());
    println!(
        "costs,program,class,ranks,iterations,method,replicas,seconds,first,messages,control,bytes,processor,open,kept,line"
    );
    for costs in [costs::LINK, costs::THESIS] {
        for program in &programs {
            let (class, iterations) = usual(*program);
            let class = match option("--class").as_deref() {
                Some("A") => 0,
                Some("B") => 1,
                Some("C") => 2,
                _ => class,
            };
            let few = if *program == Program::Ep { iterations } else { iterations.div_ceil(5) };
            let iterations = number("--iterations").unwrap_or(if is_quick { few } else { iterations });
            let pattern = Pattern { program: *program, class, ranks: number("--ranks").unwrap_or(16), iterations };
            row(costs, pattern, None, 1);
            for method in Method::ALL {
                (2..=3).for_each(|replicas| row(costs, pattern, Some(method), replicas));
            }
        }
    }
}

fn row(costs: Costs, pattern: Pattern, method: Option<Method>, replicas: u8) {
    let figures = run(&Scenario { pattern, method, replicas, costs, seed: 1 });
    let Figures { time, first, messages, control, bytes, processor, most_open, most_kept, open } = figures;
    let Pattern { program, class, ranks, iterations } = pattern;
    let step = open.len().div_ceil(POINTS).max(1);
    let line: Vec<String> = open.iter().step_by(step).map(|(time, open)| format!("{time:.4}:{open:.2}")).collect();
    println!(
        "{},{},{},{ranks},{iterations},{},{replicas},{time:.6},{first:.6},{messages},{control},{bytes},{processor:.6},\
         {most_open},{most_kept},{}",
        costs.name,
        program.name(),
        ["A", "B", "C"][class],
        method.map_or("none", Method::name),
        line.join(" ")
    );
}
