use std::time::Duration;

use super::*;

const COUNT: u32 = 3;

/// Processes whose packets arrive at once, but to and from those that are cut off.
struct World {
    now: Time,
    processes: Vec<Process>,
    cut: Vec<Rank>,
}

impl World {
    fn new() -> Self {
        let mut config = Config::new(0, COUNT);
        config.tolerance.addend = Duration::from_millis(100);
        let process = |me| Process::new(Config { me, ..config }, Question::new(None), Time::ZERO);
        Self { now: Time::ZERO, processes: (0..COUNT).map(process).collect(), cut: Vec::new() }
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
                let packets = work.packets.into_iter().chain(process.work().packets);
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
    world.arrive(&[0, 1]);
    assert_eq!(world.processes[1].round().round, 0, "the round was not done by all");
    world.cut.clear();
    world.arrive(&[2]);
    world.pass(8);
    assert_eq!(world.processes[0].standing(2), Standing::Member);
    assert!(world.processes[2].waits(), "it takes part from the next round on");
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
fn who_was_stopped_while_the_others_became_complete_ends_and_does_not_go_on_alone() {
    let mut world = World::new();
    world.pass(1);
    world.cut = vec![2];
    world.pass(3);
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
