//! Replicated ranks on the simulated platform.

use replication::method::Method;
use simulator::replication::patterns::{Pattern, Program};
use simulator::replication::{Figures, Scenario, costs, run};

fn simulate(program: Program, ranks: u32, method: Option<Method>, replicas: u8) -> Figures {
    let pattern = Pattern { program, class: 0, ranks, iterations: 1 };
    run(&Scenario { pattern, method, replicas, costs: costs::LINK, seed: 1 })
}

#[test]
fn every_program_ends_with_every_method_and_sends_as_many_messages_as_the_method_says() {
    for program in Program::ALL {
        let alone = simulate(program, 4, None, 1);
        assert!(alone.messages > 0 && alone.control == 0, "{program:?}");
        for replicas in [2, 3] {
            for method in Method::ALL {
                let figures = simulate(program, 4, Some(method), replicas);
                let copies = u64::from(if method.sends_digests() { 2 } else { replicas });
                assert_eq!(figures.messages, alone.messages * u64::from(replicas) * copies, "{program:?}, {method:?}");
            }
        }
    }
}

#[test]
fn programs_run_on_other_numbers_of_ranks() {
    for (program, ranks) in [(Program::Bt, 9), (Program::Cg, 8), (Program::Lu, 8), (Program::Ep, 6), (Program::Cg, 2)] {
        assert!(simulate(program, ranks, Some(Method::AsyncHash), 2).time > 0.0, "{program:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let figures = || simulate(Program::Lu, 4, Some(Method::Async), 3);
    assert_eq!(figures(), figures());
}
