//! A04 to A13: tests and thresholds.

use std::time::Duration;

use recommended_group::action::Action;
use recommended_group::assignment::Assignment;
use recommended_group::cluster::dimension;
use recommended_group::config::Config;
use recommended_group::estimator::{Estimator, Tolerance};
use recommended_group::group::Group;
use recommended_group::member::Member;
use recommended_group::message::Message;
use recommended_group::test::{Primes, Test};

use crate::world::{MS, SECOND, World};

fn is_test(message: &Message) -> bool {
    matches!(message, Message::Test(_))
}

fn is_reply(message: &Message) -> bool {
    matches!(message, Message::Reply { .. })
}

#[test]
fn a04_only_members_test_and_everybody_answers() {
    let mut world = World::new(4, |_| {});
    world.is_wrong[3] = true;
    world.run(3 * SECOND);
    world.sent.clear();
    world.run(SECOND);
    assert!(world.sent.iter().all(|(from, _, message)| *from != 3 || !is_test(message)));
    assert!(world.sent.iter().any(|(from, _, message)| *from == 3 && is_reply(message)));
}

#[test]
fn a05_each_member_tests_all_others_in_each_interval() {
    let mut world = World::new(18, |_| {});
    world.run(5 * SECOND);
    world.sent.clear();
    world.run(SECOND);
    let (tests, replies) = (world.sent.iter().filter(|sent| is_test(&sent.2)).count(), world.count(is_reply));
    assert_eq!((tests, replies), (306, 306), "612 messages a second, as the specification has it");
    world.is_wrong[7] = true;
    world.run(4 * SECOND);
    world.sent.clear();
    world.run(SECOND);
    assert_eq!(world.count(is_test), 17 * 17, "who is outside is tested, and does not test");
}

#[test]
fn vcube_has_at_most_n_log_n_tests_and_everybody_alive_is_tested() {
    for count in [2, 8, 13, 16, 18, 64] {
        let all = Group::all(count);
        let tests: usize = (0..count).map(|me| Assignment::VCube.targets(me, count, &all).len()).sum();
        assert!(tests as u32 <= count * dimension(count), "{tests} tests of {count}");
        if count.is_power_of_two() {
            assert_eq!(tests as u32, count * dimension(count));
        }
        for few in [&[0][..], &[1], &[0, 1]] {
            let group = Group::of(count, few.iter().copied());
            for target in (0..count).filter(|target| *few != [*target]) {
                let testers = Assignment::VCube.testers(target, count, &group);
                assert!(!testers.is_empty(), "nobody tests {target} of {count} with {few:?}");
                for me in group.iter() {
                    let tests = Assignment::VCube.targets(me, count, &group).contains(&target);
                    assert_eq!(tests, testers.contains(me), "{me} and {target}");
                }
            }
        }
    }
}

#[test]
fn a06_the_interval_is_a_parameter_and_on_the_own_clock() {
    for interval in [10 * MS, 3 * SECOND] {
        let mut world = World::new(3, |config| config.interval = interval);
        world.service = vec![MS; 3];
        world.run(SECOND);
        world.sent.clear();
        world.run(10 * interval);
        let of_first = world.sent.iter().filter(|sent| sent.0 == 0 && is_test(&sent.2)).count();
        assert_eq!(of_first, 20, "ten intervals, two others");
    }
}

#[test]
fn a07_a_right_answer_within_the_threshold_passes() {
    let mut world = World::new(3, |_| {});
    world.run(10 * SECOND);
    let mut tested = world.told.iter().filter_map(|told| match told.2 {
        Action::Tested { reply, threshold, passed, .. } => Some((reply, threshold, passed)),
        _ => None,
    });
    assert!(tested.all(|(reply, threshold, passed)| passed && reply.is_some_and(|reply| reply <= threshold)));
    world.service[1] = 500 * MS;
    world.run(SECOND * 3 / 2);
    assert_eq!(world.counters()[1], 1, "it answers, but late");
}

#[test]
fn a08_a_wrong_answer_in_time_is_as_bad_as_none() {
    let mut world = World::new(3, |_| {});
    world.run(4 * SECOND);
    world.is_wrong[1] = true;
    world.run(SECOND * 3 / 2);
    assert_eq!(world.counters(), [0, 1, 0]);
}

#[test]
fn a09_a_tester_does_not_wait_for_an_answer_that_does_not_come() {
    let mut world = World::new(4, |_| {});
    world.run(5 * SECOND);
    world.kill(2);
    world.run(3 * SECOND);
    assert_eq!(world.counters(), [0, 0, 1, 0]);
    let after = |told: &&(Duration, u32, Action)| told.0 > 6 * SECOND;
    let passed = world.told.iter().filter(after).filter(|told| matches!(told.2, Action::Tested { passed: true, .. }));
    assert!(passed.count() >= 2 * 2 * 3, "the others are tested as before");
}

#[test]
fn a10_a_threshold_is_of_one_tester_and_one_tested_process() {
    let (mut estimator, tolerance) = (Estimator::default(), Tolerance { multiplier: 1000, ..Tolerance::default() });
    estimator.observe(100 * MS, &tolerance);
    assert_eq!(estimator.threshold(&tolerance), 300 * MS, "t + 4 t/2, as RFC 6298 begins");
    estimator.observe(200 * MS, &tolerance);
    // Mean 0.9 x 100 + 0.1 x 200 = 110; variance 0.9 x 50 + 0.1 x |110 - 200| = 54; 110 + 4 x 54.
    assert_eq!(estimator.threshold(&tolerance), 326 * MS);
    let mut world = World::new(3, |_| {});
    world.service[2] = 50 * MS;
    world.run(60 * SECOND);
    let of = |tester: usize, target| world.members[tester].threshold(target);
    assert!(of(0, 2) > 3 * of(0, 1), "{:?} and {:?}", of(0, 2), of(0, 1));
    assert_eq!(of(1, 2), of(0, 2));
}

#[test]
fn a11_a_threshold_follows_the_replies_and_rises_after_a_peak() {
    let tolerance = Tolerance::default();
    let mut estimator = Estimator::default();
    (0..200).for_each(|_| estimator.observe(10 * MS, &tolerance));
    let quiet = estimator.threshold(&tolerance);
    assert!(quiet < 26 * MS, "2.5 times the mean: {quiet:?}");
    estimator.observe(100 * MS, &tolerance);
    assert!(estimator.threshold(&tolerance) > 2 * quiet);
    (0..200).for_each(|_| estimator.observe(40 * MS, &tolerance));
    let slow = estimator.threshold(&tolerance);
    assert!(slow > 100 * MS && slow < 101 * MS, "{slow:?}");
}

#[test]
fn a12_tolerance_is_a_parameter_and_the_first_test_has_eight_seconds() {
    let config = Config::new(0, 2);
    let member = Member::new(config, Primes::default(), Duration::ZERO);
    assert_eq!(member.threshold(1), 8 * SECOND);
    let mut estimator = Estimator::default();
    estimator.observe(100 * MS, &config.tolerance);
    assert_eq!(estimator.threshold(&config.tolerance), 750 * MS, "2.5 times the 300 ms of TCP");
    let added = Tolerance { multiplier: 1000, addend: 5 * MS, ..config.tolerance };
    assert_eq!(estimator.threshold(&added), 305 * MS);
}

#[test]
fn a13_another_test_can_be_used() {
    struct Squares;
    impl Test for Squares {
        fn question(&self, interval: u64) -> u64 {
            interval
        }
        fn answer(&self, question: u64) -> u64 {
            question * question
        }
        fn is_right(&self, question: u64, answer: u64) -> bool {
            question * question == answer
        }
    }
    let primes = Primes::default();
    assert_eq!(primes.answer(primes.question(1)), 168, "primes below 1,000");
    assert!(primes.is_right(1000, 168) && !primes.is_right(1000, 167) && !primes.is_right(999, 168));
    let mut out = vec![];
    let mut member = Member::new(Config::new(0, 2), Squares, Duration::ZERO);
    for second in 0..3 {
        member.timer(second * SECOND, &mut out);
        let Some(Action::Send { message: Message::Test(asked), .. }) = out.pop() else { panic!("a test") };
        assert_eq!(asked.question, u64::from(second) + 1);
        let (answer, digest) = (asked.question.pow(2) + u64::from(second == 2), asked.digest);
        let reply = Message::Reply { asked, answer, digest, counters: None };
        member.receive(second * SECOND + MS, 1, reply, &mut out);
        member.timer(second * SECOND + MS, &mut out);
        assert_eq!(member.counters().get(1), u32::from(second == 2));
    }
}
