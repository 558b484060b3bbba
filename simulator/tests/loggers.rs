//! Event loggers by themselves, simulated.

use simulator::loggers::{Costs, Deployment, Figures, Scenario, costs, run};

fn figures(deployment: Deployment, costs: Costs, ranks: u32) -> Figures {
    let determinants = u64::from(20 * ranks).max(2_000);
    run(&Scenario { deployment, costs, ranks, batch: 1, determinants, seed: 7 })
}

#[test]
fn the_parallel_logger_grows_with_the_ranks_and_the_others_do_not() {
    for costs in [costs::MEASURED, costs::THESIS] {
        let rate = |deployment, ranks| figures(deployment, costs, ranks).rate;
        let own = Deployment::ParallelOwn;
        assert!(rate(own, 1024) > 7.5 * rate(own, 128) && rate(own, 128) > 7.5 * rate(own, 16), "{costs:?}");
        for deployment in [Deployment::Centralised, Deployment::Classic] {
            assert!(rate(deployment, 1024) < 1.05 * rate(deployment, 128), "{costs:?}, {deployment:?}");
        }
        assert!(rate(Deployment::Classic, 128) < rate(Deployment::Centralised, 128), "{costs:?}");
        assert!(rate(own, 128) > 4.8 * rate(Deployment::Centralised, 128), "{costs:?}");
    }
    let rate = |deployment| figures(deployment, costs::MEASURED, 128).rate;
    assert!(rate(Deployment::ParallelDedicated) > 5.0 * rate(Deployment::Centralised));
}

#[test]
fn rate_and_latency_agree_by_littles_law() {
    for deployment in Deployment::ALL {
        for ranks in [1, 16, 128] {
            let Figures { rate, mean, percentile_99, .. } = figures(deployment, costs::MEASURED, ranks);
            let waiting = rate * mean / 1e6;
            assert!((waiting / f64::from(ranks) - 1.0).abs() < 0.05, "{deployment:?}: {waiting} of {ranks} wait");
            assert!(percentile_99 as f64 >= mean, "{deployment:?}");
        }
    }
}

#[test]
fn what_was_not_fitted_is_near_the_thesis() {
    // Fitted are 83 per ms, and 0.31 ms of the parallel logger; its rate of 415 and the 1.54 ms follow.
    let centralised = figures(Deployment::Centralised, costs::THESIS, 128);
    assert!((centralised.mean / 1.54e6 - 1.0).abs() < 0.05, "{centralised:?}");
    let parallel = figures(Deployment::ParallelDedicated, costs::THESIS, 128);
    assert!((parallel.rate / 415.0 - 1.0).abs() < 0.05, "{parallel:?}");
}

#[test]
fn nobody_at_an_acceptor_works_for_the_one_sided_logger() {
    let used = |deployment| {
        let scenario =
            Scenario { deployment, costs: costs::MEASURED, ranks: 16, batch: 1, determinants: 20_000, seed: 7 };
        run(&scenario).store_processors
    };
    assert_eq!(used(Deployment::OneSided), 0.0);
    assert!(used(Deployment::ParallelOwn) > 0.1);
}

#[test]
fn a_run_is_a_function_of_its_scenario() {
    assert_eq!(figures(Deployment::Classic, costs::MEASURED, 16), figures(Deployment::Classic, costs::MEASURED, 16));
}
