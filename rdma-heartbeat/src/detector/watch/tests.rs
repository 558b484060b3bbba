use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use node_abi::segment::SpawnedJob;
use node_abi::testing::{sleeper_of, sleeper_that_blocks};
use platform::testing::{Dumper, wait_until};

use super::*;

const LIMIT: Duration = Duration::from_millis(32);
const JOB: &str = "job@1";

fn look(watch: &mut Watch, now: u64, segment: &Segment) -> Vec<Sighting> {
    let (now, mut out) = (Duration::from_millis(now), Vec::new());
    watch.look(now, segment, &mut out);
    while watch.claims.open() + watch.passes.open() > 0 {
        let mut waiting = [PollFd::new(watch.bell().as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, PollTimeout::NONE).unwrap();
        watch.bell().clear();
        watch.look(now, segment, &mut out);
    }
    out
}

#[test]
fn registrations_are_pinned_once_and_the_runtime_is_never() {
    let (segment, _file) = Segment::create(&[4, 5, 6], 8).unwrap();
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), []);
    assert_eq!(watch.deadline(), LOOK_INTERVAL);
    let mut child = sleeper_of(JOB, 5);
    segment.enter(1, child.id(), Phase::Running);
    segment.enter(2, 1, Phase::Initialising);
    assert_eq!(look(&mut watch, 20, &segment), [Sighting::Pinned(1)]);
    assert_eq!(look(&mut watch, 40, &segment), []);
    assert!(!watch.all_initialised(&segment, |_| true));
    assert!(watch.all_initialised(&segment, |_| false), "programs without MPI are not waited for");
    assert!(watch.descriptor(2).is_none());
    watch.fence(4, &segment);
    watch.fence(5, &segment);
    wait_until(|| child.try_wait().unwrap().is_some());
    assert_eq!(watch.ended(1, &segment), Some(Sighting::Dead(5, RankReason::Reported)));
    assert_eq!(watch.ended(1, &segment), None);
}

#[test]
fn a_rank_cannot_have_another_process_watched() {
    let (segment, _file) = Segment::create(&[4, 5], 8).unwrap();
    let (mut other_rank, mut other_job) = (sleeper_of(JOB, 7), sleeper_of("job@2", 5));
    segment.enter(0, other_rank.id(), Phase::Running);
    segment.enter(1, other_job.id(), Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), []);
    assert!(watch.fence_all().is_empty());
    for child in [&mut other_rank, &mut other_job] {
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn who_descends_from_the_runtime_is_watched_until_it_proves_to_be_another_rank() {
    let (segment, _file) = Segment::create(&[4, 5], 8).unwrap();
    let mut children = [sleeper_of(JOB, 4), sleeper_of(JOB, 7)];
    segment.enter(0, children[0].id(), Phase::Running);
    segment.enter(1, children[1].id(), Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, std::process::id() as i32).unwrap();
    let mut out = Vec::new();
    watch.look(Duration::ZERO, &segment, &mut out);
    assert_eq!(out, [Sighting::Pinned(0), Sighting::Pinned(1)], "before anybody has answered");
    assert_eq!(look(&mut watch, 0, &segment), []);
    assert_eq!((watch.descriptor(0).is_some(), watch.descriptor(1).is_some()), (true, false));
    assert_eq!(watch.fence_all(), [4]);
    children[0].wait().unwrap();
    assert!(children[1].try_wait().unwrap().is_none());
    children[1].kill().unwrap();
    children[1].wait().unwrap();
}

#[test]
fn the_process_of_a_dead_rank_is_asked_who_it_is_before_anything_else() {
    let (segment, _file) = Segment::create(&[4], 8).unwrap();
    let mut newcomer = sleeper_of("job@2", 9);
    segment.enter(0, newcomer.id(), Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, std::process::id() as i32).unwrap();
    watch.doubt([4]);
    let mut out = Vec::new();
    watch.look(Duration::ZERO, &segment, &mut out);
    assert!(out.is_empty() && watch.is_asking() && watch.fence_all().is_empty());
    assert_eq!(look(&mut watch, 0, &segment), []);
    assert!(!watch.is_asking() && watch.fence_all().is_empty());
    assert!(newcomer.try_wait().unwrap().is_none());
    newcomer.kill().unwrap();
    newcomer.wait().unwrap();
}

#[test]
fn who_hides_its_environment_is_watched_only_if_the_runtime_has_started_it() {
    let (segment, _file) = Segment::create(&[4], 8).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").env_clear().spawn().unwrap();
    wait_until(|| std::fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name == "sleep\n"));
    segment.enter(0, child.id(), Phase::Running);
    let sightings = |runtime| {
        let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, runtime).unwrap();
        look(&mut watch, 0, &segment)
    };
    assert_eq!(sightings(i32::MAX), []);
    assert_eq!(sightings(std::process::id() as i32), [Sighting::Pinned(0)]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_spawned_rank_is_watched_under_its_own_name() {
    let (segment, _file) = Segment::create(&[4], 8).unwrap();
    let name_of = |rank| if rank < 8 { (JOB, rank) } else { ("job@2", rank - 8) };
    let mut watch = Watch::new(&segment, name_of, LIMIT, None, true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), []);
    assert!(segment.admit(SpawnedJob { first: 8, number: 2 }, &[9]));
    watch.extend(&segment, name_of);
    let mut child = sleeper_of("job@2", 1);
    segment.enter(1, child.id(), Phase::Running);
    assert_eq!(look(&mut watch, 1, &segment), [Sighting::Pinned(1)]);
    watch.fence(9, &segment);
    wait_until(|| child.try_wait().unwrap().is_some());
    assert_eq!(watch.ended(1, &segment), Some(Sighting::Dead(9, RankReason::Reported)));
}

#[test]
fn who_finalised_is_not_dead() {
    let (segment, _file) = Segment::create(&[0, 1], 8).unwrap();
    let mut child = sleeper_of(JOB, 0);
    segment.enter(0, child.id(), Phase::Running);
    segment.enter(1, i32::MAX as u32, Phase::Finalised);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0)]);
    assert!(watch.has_living(&segment) && watch.all_initialised(&segment, |_| true));
    segment.enter(0, child.id(), Phase::Finalised);
    assert!(!watch.has_living(&segment));
    child.kill().unwrap();
    assert_eq!(watch.ended(0, &segment), None);
    child.wait().unwrap();
}

#[test]
fn a_registered_process_that_is_gone_is_dead() {
    let (segment, _file) = Segment::create(&[3], 8).unwrap();
    segment.enter(0, i32::MAX as u32, Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Dead(3, RankReason::Reported)]);
    assert_eq!(watch.deadline(), Time::MAX);
}

#[test]
fn a_rank_that_is_stopped_before_it_registers_is_dead_after_the_limit_and_is_killed() {
    let (segment, _file) = Segment::create(&[3, 4], 8).unwrap();
    let mut children = [sleeper_of("early@1", 3), sleeper_of("early@1", 4)];
    let pins = [0, 1].map(|index: usize| Pin::take(children[index].id() as i32).unwrap());
    let me = std::process::id() as i32;
    let mut watch = Watch::new(&segment, |rank| ("early@1", rank), LIMIT, Some(LIMIT), true, me).unwrap();
    pins[0].stop();
    wait_until(|| pins[0].stopped().is_some());
    // They are found first, and sampled from then on.
    for now in (0..36).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    assert_eq!(watch.all_stopped(Duration::from_millis(35), LIMIT / 2, &segment), None, "one of them runs");
    assert_eq!(look(&mut watch, 36, &segment), [Sighting::Dead(3, RankReason::Stopped)]);
    watch.left(4, &segment);
    assert_eq!(watch.all_stopped(Duration::from_millis(37), LIMIT / 2, &segment), Some(1));
    assert!(watch.fence(3, &segment));
    children[0].wait().unwrap();
    assert!(!watch.fence(4, &segment), "it has left");
    children[1].kill().unwrap();
    children[1].wait().unwrap();
}

/// A debugger on one of them would make a suspended node appear to run.
#[test]
fn a_rank_that_could_not_run_hides_no_suspension() {
    let (segment, _file) = Segment::create(&[3, 4], 8).unwrap();
    let mut children = [sleeper_of("held@1", 3), sleeper_of("held@1", 4)];
    let pins = [0, 1].map(|index: usize| Pin::take(children[index].id() as i32).unwrap());
    let me = std::process::id() as i32;
    let mut watch = Watch::new(&segment, |rank| ("held@1", rank), LIMIT, Some(LIMIT), true, me).unwrap();
    pins[0].stop();
    let traced = nix::unistd::Pid::from_raw(pins[1].pid());
    nix::sys::ptrace::attach(traced).unwrap();
    wait_until(|| pins[0].stopped().is_some() && pins[1].cannot_run());
    for now in (0..24).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    assert_eq!(watch.all_stopped(Duration::from_millis(24), LIMIT / 2, &segment), Some(1));
    nix::sys::wait::waitpid(traced, Some(nix::sys::wait::WaitPidFlag::__WALL)).unwrap();
    nix::sys::ptrace::detach(traced, None).unwrap();
    wait_until(|| !pins[1].cannot_run());
    assert_eq!(watch.all_stopped(Duration::from_millis(25), LIMIT / 2, &segment), None, "it runs");
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_rank_that_was_started_stopped_is_not_dead_until_it_has_registered() {
    let (segment, _file) = Segment::create(&[3], 8).unwrap();
    let mut child = sleeper_of("debugged@1", 3);
    let pin = Pin::take(child.id() as i32).unwrap();
    let me = std::process::id() as i32;
    let mut watch = Watch::new(&segment, |rank| ("debugged@1", rank), LIMIT, Some(LIMIT), true, me).unwrap();
    watch.let_start_stopped();
    pin.stop();
    wait_until(|| pin.stopped().is_some());
    for now in (0..200).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    segment.enter(0, child.id(), Phase::Running);
    assert_eq!(look(&mut watch, 220, &segment), [Sighting::Pinned(0)]);
    for now in (222..252).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    assert_eq!(look(&mut watch, 254, &segment), [Sighting::Dead(3, RankReason::Stopped)]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_stopped_rank_is_dead_after_the_limit_unless_killing_is_off_it_is_then_killed() {
    let (segment, _file) = Segment::create(&[3], 8).unwrap();
    let mut child = sleeper_of(JOB, 3);
    segment.enter(0, child.id(), Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, Some(LIMIT), false, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0)]);
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let pin = Pin::take(pid.as_raw()).unwrap();
    wait_until(|| pin.stopped().is_some());
    for now in (4..36).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    assert_eq!(look(&mut watch, 36, &segment), [Sighting::Dead(3, RankReason::Stopped)]);
    watch.fence_all();
    assert!(!pin.has_ended());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// It sleeps in a one-shot handler, like Open MPI's handler that waits for a lock.
#[test]
fn a_rank_that_hangs_in_its_handler_of_a_crash_is_dead_after_the_limit() {
    let (segment, _file) = Segment::create(&[3, 4], 8).unwrap();
    let crashed = SigSet::from(Signal::SIGSEGV);
    // A process that only ignores signals for a moment has not crashed.
    let mut children = [sleeper_that_blocks(JOB, 3, crashed), sleeper_that_blocks(JOB, 4, SigSet::all())];
    (0..).zip(&children).for_each(|(slot, child)| segment.enter(slot, child.id(), Phase::Running));
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, Some(LIMIT), true, 1).unwrap();
    let pin = Pin::take(children[0].id() as i32).unwrap();
    wait_until(|| pin.sample().and_then(|sample| pin.halted(sample)).is_some());
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0), Sighting::Pinned(1)]);
    for now in (4..36).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    let signal = Signal::SIGSEGV as i32;
    assert_eq!(look(&mut watch, 36, &segment), [Sighting::Dead(3, RankReason::Signaled { signal })]);
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_rank_that_dumps_core_is_dead_at_once_and_is_left_alone() {
    let Some(dumper) = Dumper::start(false) else { return };
    let (segment, _file) = Segment::create(&[3], 8).unwrap();
    let pin = Pin::take(dumper.pid()).unwrap();
    let me = std::process::id() as i32;
    let life = || Watch::new(&segment, |rank| (JOB, rank), LIMIT, Some(LIMIT), true, me).unwrap();
    segment.enter(0, dumper.pid() as u32, Phase::Initialising);
    let mut watch = life();
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0)]);
    dumper.crash();
    let reason = RankReason::DumpsCore { signal: libc::SIGABRT };
    wait_until(|| pin.sample().and_then(|sample| pin.dumping(sample)).map(reason_of) == Some(reason));
    assert_eq!(look(&mut watch, 4, &segment), [], "without it the job ends, and its core is not whole");
    segment.enter(0, dumper.pid() as u32, Phase::Running);
    assert_eq!(look(&mut watch, 8, &segment), [Sighting::Dead(3, reason)]);
    assert!(!watch.fence(3, &segment) && !watch.has_living(&segment));
    assert_eq!((look(&mut watch, 12, &segment), watch.ended(0, &segment)), (vec![], None));
    // A later incarnation knows that it is dead, and nothing else.
    let mut later = life();
    later.doubt([3]);
    assert_eq!(look(&mut later, 0, &segment), [Sighting::Pinned(0)]);
    assert!(!later.fence(3, &segment) && !pin.has_ended());
    // The end of the whole job kills it.
    assert_eq!(later.fence_all(), [3]);
    wait_until(|| pin.has_ended());
}

#[test]
fn a_rank_that_may_be_stopped_is_not_dead_and_still_seen_to_be_stopped() {
    let (segment, _file) = Segment::create(&[3], 8).unwrap();
    let mut child = sleeper_of(JOB, 3);
    segment.enter(0, child.id(), Phase::Running);
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, None, true, 1).unwrap();
    watch.let_be_stopped(LIMIT);
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0)]);
    let pin = Pin::take(child.id() as i32).unwrap();
    pin.stop();
    wait_until(|| pin.stopped().is_some());
    for now in (4..100).step_by(2) {
        assert_eq!(look(&mut watch, now, &segment), []);
    }
    assert_eq!(watch.all_stopped(Duration::from_millis(100), LIMIT, &segment), Some(1));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_was_stopped_before_the_ranks_were_held_stays_so_when_they_are_released() {
    let (segment, _file) = Segment::create(&[3, 4], 8).unwrap();
    let mut children = [3, 4].map(|rank| sleeper_of(JOB, rank));
    let pins = [0, 1].map(|slot: u32| {
        let pid = children[slot as usize].id();
        segment.enter(slot, pid, Phase::Running);
        Pin::take(pid as i32).unwrap()
    });
    let mut watch = Watch::new(&segment, |rank| (JOB, rank), LIMIT, Some(LIMIT), true, 1).unwrap();
    assert_eq!(look(&mut watch, 0, &segment), [Sighting::Pinned(0), Sighting::Pinned(1)]);
    pins[0].stop();
    wait_until(|| pins[0].stopped().is_some());
    watch.hold(&segment);
    wait_until(|| pins[1].stopped().is_some());
    watch.release(LIMIT, &segment);
    wait_until(|| pins[1].stopped().is_none());
    assert!(pins[0].stopped().is_some());
    pins[0].go_on();
    wait_until(|| pins[0].stopped().is_none());
    watch.hold(&segment);
    wait_until(|| pins.iter().all(|pin| pin.stopped().is_some()));
    watch.release(LIMIT, &segment);
    wait_until(|| pins.iter().all(|pin| pin.stopped().is_none()));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Like a `ringwatchd` that is replaced.
#[test]
fn a_later_life_lets_go_on_whom_an_earlier_one_has_stopped_and_nobody_else() {
    let (segment, _file) = Segment::create(&[3, 4, 5], 8).unwrap();
    let mut children = [3, 4, 5].map(|rank| sleeper_of(JOB, rank));
    let pins = [0, 1, 2].map(|slot: usize| Pin::take(children[slot].id() as i32).unwrap());
    let enter = |slot: u32| segment.enter(slot, children[slot as usize].id(), Phase::Running);
    let life = || Watch::new(&segment, |rank| (JOB, rank), LIMIT, Some(LIMIT), true, 1).unwrap();
    let pinned = |watch: &mut Watch, now| {
        for sighting in look(watch, now, &segment) {
            let Sighting::Pinned(slot) = sighting else { panic!("{sighting:?}") };
            watch.pinned(slot, &segment);
        }
    };
    (0..2).for_each(enter);
    let mut first = life();
    pinned(&mut first, 0);
    pins[0].stop();
    wait_until(|| pins[0].stopped().is_some());
    first.hold(&segment);
    wait_until(|| pins[1].stopped().is_some());
    drop(first);
    // As if it had ended between its note and the stop.
    pins[1].go_on();
    wait_until(|| pins[1].stopped().is_none());
    // The second one holds from its start, and a further rank registers.
    let mut second = life();
    second.hold(&segment);
    pinned(&mut second, 0);
    enter(2);
    second.extend(&segment, |rank| (JOB, rank));
    pinned(&mut second, 2);
    wait_until(|| pins[1..].iter().all(|pin| pin.stopped().is_some()));
    drop(second);
    // The third one does not hold any more.
    let mut third = life();
    pinned(&mut third, 0);
    wait_until(|| pins[1..].iter().all(|pin| pin.stopped().is_none()));
    assert!(pins[0].stopped().is_some(), "somebody else has stopped it");
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
