use std::sync::atomic::{AtomicBool, Ordering};

use recommended_group::group::Group;
use recommended_group::report::{Change, Sight, Standing};

use super::*;
use crate::addresses;
use crate::watcher::Watcher;

const COUNT: usize = 4;
/// Nobody waits longer for what must happen.
const LIMIT: Duration = Duration::from_secs(60);

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<(Vec<Change>, Option<Sight>)>>);

impl Watcher for Notes {
    fn changes(&mut self, changes: Vec<Change>) {
        self.0.lock().unwrap().0.extend(changes);
    }

    fn sight(&mut self, sight: &Sight) {
        self.0.lock().unwrap().1 = Some(sight.clone());
    }
}

/// A group in this process, which tells all of it to these notes. The program's function of process 3 stays in it while `is_stuck`.
fn group(is_stuck: &Arc<AtomicBool>, notes: &Notes) -> Vec<Client> {
    let (sockets, addresses): (Vec<_>, Vec<_>) = (0..COUNT).map(|_| addresses::open().unwrap()).unzip();
    // A machine that is busy is not what is tested here.
    let parameters = Parameters { interval_ms: 100, addend_ms: 3000, ..Parameters::default() };
    let common = Common { parameters, number: 7, key: [7; 32], addresses };
    let start = |(me, socket): (usize, UdpSocket)| {
        let is_stuck = is_stuck.clone();
        let question = Question::new(Some(Arc::new(move || {
            while me == 3 && is_stuck.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            42
        })));
        Client::start(me as Rank, common.clone(), question, socket, Box::new(notes.clone())).unwrap()
    };
    sockets.into_iter().enumerate().map(start).collect()
}

fn until(is_so: impl Fn() -> bool) {
    let deadline = clock::now() + LIMIT;
    while !is_so() {
        assert!(clock::now() < deadline, "it must happen");
        std::thread::yield_now();
    }
}

fn members(client: &Client) -> (u64, Group) {
    client.with(|process| (process.round().round, process.round().members.clone()))
}

#[test]
fn a_process_that_does_not_answer_is_left_behind_and_comes_back_when_it_does() {
    let is_stuck = Arc::new(AtomicBool::new(false));
    let notes = Notes::default();
    let clients = group(&is_stuck, &notes);
    clients.iter().for_each(|client| client.with(|process| process.arrive(true)));
    clients.iter().for_each(|client| assert_eq!(client.wait(LIMIT), Waited::Round));
    assert_eq!(members(&clients[0]), (1, Group::all(4)));

    is_stuck.store(true, Ordering::Relaxed);
    until(|| clients[..3].iter().all(|client| client.with(|process| process.standing(3)) == Standing::Evicted));
    clients[..3].iter().for_each(|client| client.with(|process| process.arrive(false)));
    clients[..3].iter().for_each(|client| assert_eq!(client.wait(LIMIT), Waited::Round));
    clients[..3].iter().for_each(|client| assert_eq!(members(client), (1, Group::of(4, [0, 1, 2]))));

    is_stuck.store(false, Ordering::Relaxed);
    clients[3].with(|process| process.arrive(false));
    until(|| clients[..3].iter().all(|client| client.with(|process| process.standing(3)) == Standing::Member));
    assert_eq!(clients[3].wait(Duration::ZERO), Waited::Waits);
    clients[..3].iter().for_each(|client| client.with(|process| process.arrive(true)));
    for client in &clients {
        assert_eq!(client.wait(LIMIT), Waited::Round);
        assert_eq!(members(client), (2, Group::all(4)));
        assert_eq!(client.with(|process| process.returned().to_vec()), [3]);
    }
    let told = notes.0.lock().unwrap();
    let counters: Vec<u32> = told.0.iter().filter(|change| change.rank == 3).map(|change| change.counter).collect();
    assert!(counters.contains(&1) && counters.contains(&2), "who watches hears of both: {counters:?}");
    assert_eq!(told.1.as_ref().map(|sight| sight.rows.len()), Some(COUNT));
}

#[test]
fn a_process_that_waits_hears_of_the_end() {
    let clients = group(&Arc::new(AtomicBool::new(false)), &Notes::default());
    clients[1].with(|process| process.arrive(true));
    assert_eq!(clients[1].wait(Duration::from_millis(1)), Waited::Waits);
    // As if the others had done a round without it.
    clients[0].with(|process| process.receive(Duration::ZERO, 2, Packet::Left { rounds: 1, counter: 0 }));
    clients[0].with(Process::leave);
    assert_eq!(clients[1].wait(LIMIT), Waited::Ended);
}
