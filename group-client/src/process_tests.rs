use std::time::Duration;

use recommended_group::report::Verdict;

use super::*;

const COUNT: u32 = 3;

/// Processes whose packets arrive at once, but to and from those that are cut off.
struct World {
    now: Time,
    processes: Vec<Process>,
    cut: Vec<Rank>,
    /// What they have told those who watch.
    changes: Vec<Change>,
}

impl World {
    fn new() -> Self {
        let mut config = Config::new(0, COUNT);
        config.tolerance.addend = Duration::from_millis(100);
        let process = |me| Process::new(Config { me, ..config }, Question::new(None), Time::ZERO);
        Self { now: Time::ZERO, processes: (0..COUNT).map(process).collect(), cut: Vec::new(), changes: Vec::new() }
    }

    fn deliver(&mut self) {
        loop {
            let mut on_way = Vec::new();
            for from in 0..COUNT {
                let process = &mut self.processes[from as usize];
                let work = process.work();
                for (to, asked) in work.tests {
                    process.answered(to, asked, Question::new(None).answer_of(asked));
                }
                let later = process.work();
                self.changes.extend(work.changes.into_iter().chain(later.changes));
                let packets = work.packets.into_iter().chain(later.packets);
                on_way.extend(packets.map(|(to, packet)| (from, to, packet)));
            }
            if on_way.is_empty() {
                return;
            }
            on_way.retain(|(from, to, _)| !self.cut.contains(from) && !self.cut.contains(to));
            for (from, to, packet) in on_way {
                self.processes[to as usize].receive(self.now, from, packet);
            }
        }
    }

    /// So many intervals.
    fn pass(&mut self, intervals: u32) {
        for _ in 0..20 * intervals {
            self.now += Duration::from_millis(50);
            for rank in 0..COUNT {
                if !self.cut.contains(&rank) {
                    self.processes[rank as usize].timer(self.now);
                }
            }
            self.deliver();
        }
    }

    /// Process 2 is cut off, and the others have evicted it.
    fn with_2_evicted() -> Self {
        let mut world = Self::new();
        world.pass(1);
        world.cut = vec![2];
        world.pass(3);
        world
    }

    fn arrive(&mut self, ranks: &[u32]) {
        ranks.iter().for_each(|rank| self.processes[*rank as usize].arrive(true));
        self.deliver();
    }
}

impl Question {
    fn answer_of(&self, asked: Asked) -> u64 {
        recommended_group::test::Test::answer(self, asked.question)
    }
}

#[test]
fn all_begin_the_next_round_with_the_same_view_when_all_have_come() {
    let mut world = World::new();
    world.arrive(&[0, 2]);
    assert!(world.processes[0].waits() && world.processes[2].waits());
    world.arrive(&[1]);
    for process in &world.processes {
        assert!(!process.waits());
        assert_eq!((process.round().round, process.round().base, process.round().members.len()), (1, 1, 3));
    }
}

#[test]
fn who_is_silent_is_lost_in_its_round_and_who_comes_back_is_named() {
    let mut world = World::new();
    world.pass(2);
    world.cut = vec![2];
    world.pass(3);
    assert_eq!((world.processes[0].lost(), world.processes[0].standing(2)), (1, Standing::Evicted));
    let row = world.processes[0].sight().rows[2];
    assert_eq!((row.rank, row.standing, row.counter, row.is_in_round), (2, Standing::Evicted, 1, true));
    assert_eq!(row.tested.map(|tested| tested.verdict), Some(Verdict::Silent));
    world.arrive(&[0, 1]);
    assert_eq!(world.processes[1].round().round, 0, "the round was not done by all");
    world.cut.clear();
    world.arrive(&[2]);
    world.pass(8);
    assert_eq!(world.processes[0].standing(2), Standing::Member);
    assert!(world.processes[2].waits(), "it takes part from the next round on");
    let told = |counter: Counter| world.changes.iter().filter(move |change| change.counter == counter);
    assert!(told(1).count() > 0 && told(1).all(|change| (change.rank, change.tested) == (2, row.tested)));
    assert_eq!(told(2).collect::<Vec<_>>(), [&Change { rank: 2, counter: 2, tested: None }], "by the leader alone");
    world.arrive(&[0, 1]);
    for process in &world.processes {
        assert_eq!((process.round().members.len(), process.returned(), process.lost()), (3, &[2][..], 0));
    }
}

#[test]
fn who_is_known_to_be_dead_is_told_from_who_is_silent() {
    let mut world = World::new();
    world.processes[0].died(1);
    assert_eq!((world.processes[0].standing(1), world.processes[0].lost()), (Standing::Dead, 1));
}

#[test]
fn a31_who_has_completed_is_neither_dead_nor_evicted_and_whoever_goes_on_does_so_without_it() {
    let mut world = World::with_2_evicted();
    world.cut.clear();
    world.arrive(&[2]);
    world.pass(8);
    assert_eq!(world.processes[0].standing(2), Standing::Member, "it is back");
    world.arrive(&[0, 1]);
    world.changes.clear();
    world.processes[1].leave();
    world.processes[2].leave();
    world.deliver();
    world.pass(3);
    let process = &world.processes[0];
    assert_eq!([0, 1, 2].map(|rank| process.standing(rank)), [Standing::Member, Standing::Left, Standing::Left]);
    assert_eq!([0, 1, 2].map(|rank| process.counter(rank)), [0, 0, 2], "one was evicted before, and has come back");
    assert_eq!((world.changes.len(), process.lost()), (0, 2), "a round of three cannot be completed");
    assert_eq!(process.sight().rows[1].tested.map(|tested| tested.verdict), Some(Verdict::Passed));
    world.arrive(&[0]);
    assert_eq!(world.processes[0].round().members.iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn who_hears_from_others_first_that_a_process_is_gone_learns_from_itself_that_it_has_completed() {
    let mut world = World::new();
    world.pass(1);
    world.processes[2].leave();
    for (to, packet) in world.processes[2].work().packets {
        if to == 0 {
            world.processes[0].receive(world.now, 2, packet);
        }
    }
    world.pass(3);
    assert_eq!((world.processes[1].standing(2), world.processes[1].counter(2)), (Standing::Left, 0));
    assert_eq!(world.changes, []);
}

#[test]
fn who_was_stopped_while_the_others_became_complete_ends_and_does_not_go_on_alone() {
    let mut world = World::with_2_evicted();
    world.arrive(&[0, 1]);
    world.arrive(&[0, 1]);
    world.processes[0].leave();
    world.processes[1].leave();
    world.deliver();
    world.cut.clear();
    world.arrive(&[2]);
    assert!(world.processes[2].has_ended() && !world.processes[2].waits());
    assert_eq!(world.processes[2].round().number, 1, "it has begun no round");
    assert_eq!(world.processes[2].standing(0), Standing::Left);
    assert_eq!(world.processes[0].counter(2), 1, "nobody takes back that it was evicted");
}

#[test]
fn who_is_outside_hears_of_the_end_though_what_the_others_have_said_was_lost() {
    let mut world = World::with_2_evicted();
    world.cut.clear();
    world.arrive(&[2]);
    world.pass(1);
    assert_eq!(world.processes[2].standing(2), Standing::Evicted, "it knows that it is outside, and tests nobody");
    world.cut = vec![2];
    world.arrive(&[0, 1]);
    world.arrive(&[0, 1]);
    world.processes[0].leave();
    world.processes[1].leave();
    world.deliver();
    world.cut.clear();
    world.pass(2);
    assert!(world.processes[2].has_ended() && !world.processes[2].waits());
}

#[test]
fn whoever_misses_the_last_view_ends_as_the_others_do() {
    let mut world = World::new();
    world.arrive(&[0, 1]);
    world.processes[2].arrive(true);
    // The others pass the barrier, and the last word to process 2 is lost.
    let mut install = true;
    while install {
        install = false;
        for from in 0..COUNT {
            for (to, packet) in world.processes[from as usize].work().packets {
                let is_lost = to == 2 && matches!(packet, Packet::Group(Message::Commit(_)));
                if !is_lost {
                    world.processes[to as usize].receive(world.now, from, packet);
                }
                install = true;
            }
        }
    }
    assert!(world.processes[2].waits() && !world.processes[0].waits());
    world.processes[0].leave();
    world.deliver();
    assert!(world.processes[2].has_ended());
}
