use node_abi::framed_output::{Merger, frames};

use super::*;

/// Replicas of a rank, whose words and text arrive at once or wait.
struct Rank {
    all: Vec<Option<Printing>>,
    waiting: Vec<(u8, u8, Word)>,
    /// Text on its way to `mpirun`, by replica.
    leaving: Vec<(u8, Vec<u8>)>,
    merger: Merger<u8>,
    printed: String,
    findings: Vec<Act>,
}

impl Rank {
    fn new(replicas: u8) -> Self {
        let living = Indices::first(replicas);
        let all = (0..replicas).map(|me| Some(Printing::new(me, living))).collect();
        Self {
            all,
            waiting: Vec::new(),
            leaving: Vec::new(),
            merger: Merger::default(),
            printed: String::new(),
            findings: Vec::new(),
        }
    }

    fn carry_out(&mut self, me: u8, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Tell(to, word) => self.waiting.push((me, to, word)),
                Act::Write(place, text) => self.leaving.push((me, frames(0, place, &text))),
                Act::Flush => {}
                other => self.findings.push(other),
            }
        }
    }

    fn feed(&mut self, me: u8, text: &str) {
        let mut acts = Vec::new();
        self.all[usize::from(me)].as_mut().unwrap().feed(text.as_bytes(), &mut acts);
        self.carry_out(me, acts);
    }

    /// The first word that waits arrives.
    fn one(&mut self) {
        let (from, to, word) = self.waiting.remove(0);
        let mut acts = Vec::new();
        if let Some(printing) = &mut self.all[usize::from(to)] {
            printing.hear(from, word, &mut acts);
        }
        self.carry_out(to, acts);
    }

    /// All words and all text arrive.
    fn all(&mut self) {
        while !self.waiting.is_empty() {
            self.one();
        }
        self.arrive();
    }

    fn arrive(&mut self) {
        for (replica, bytes) in self.leaving.drain(..) {
            let merged = self.merger.take(replica, &bytes);
            assert_eq!(merged.lost, []);
            self.printed += &String::from_utf8(merged.text).unwrap();
        }
    }

    fn end(&mut self, me: u8) {
        let mut acts = Vec::new();
        self.all[usize::from(me)].as_mut().unwrap().end(&mut acts);
        self.carry_out(me, acts);
    }

    /// A replica dies with the words that have not arrived; `lost`: with its node, and so with its text.
    fn kill(&mut self, dead: u8, lost: bool) {
        self.all[usize::from(dead)] = None;
        self.waiting.retain(|(from, ..)| *from != dead);
        self.leaving.retain(|(from, _)| *from != dead || !lost);
        for me in 0..self.all.len() as u8 {
            let mut acts = Vec::new();
            if let Some(printing) = &mut self.all[usize::from(me)] {
                printing.bury(dead, &mut acts);
            }
            self.carry_out(me, acts);
        }
    }
}

#[test]
fn text_appears_once_when_all_have_printed_it() {
    let mut rank = Rank::new(2);
    rank.feed(0, "one ");
    rank.all();
    assert_eq!(rank.printed, "", "the other one has not printed it");
    rank.feed(1, "one two ");
    rank.all();
    rank.feed(0, "two ");
    rank.all();
    assert_eq!(rank.printed, "one two ");
    assert!(rank.all.iter().flatten().all(Printing::has_printed));
    (0..2).for_each(|me| rank.end(me));
    rank.all();
    assert!(rank.all.iter().flatten().all(Printing::is_over));
    assert_eq!(rank.printed, "one two ");
}

/// Whatever has arrived of the words and the text of the dead when it dies.
#[test]
fn a_successor_loses_no_text_and_repeats_none() {
    for replicas in [2, 3] {
        for words in 0..12 {
            for lost in [false, true] {
                for arrived in [false, true] {
                    let mut rank = Rank::new(replicas);
                    for text in ["one ", "two "] {
                        (0..replicas).for_each(|me| rank.feed(me, text));
                    }
                    for _ in 0..words {
                        if !rank.waiting.is_empty() {
                            rank.one();
                        }
                    }
                    if arrived {
                        rank.arrive();
                    }
                    rank.kill(0, lost);
                    for me in 1..replicas {
                        rank.feed(me, "three ");
                        rank.end(me);
                    }
                    rank.all();
                    let case = format!("{replicas} replicas, {words} words, lost: {lost}, arrived: {arrived}");
                    assert_eq!(rank.printed, "one two three ", "{case}");
                    assert!(rank.all.iter().flatten().all(Printing::is_over), "{case}");
                }
            }
        }
    }
}

/// The node of the replica that prints is lost after that has said that all is printed.
#[test]
fn the_last_text_comes_from_all() {
    let mut rank = Rank::new(2);
    for me in [0, 1] {
        rank.feed(me, "last ");
        rank.end(me);
    }
    while !rank.waiting.is_empty() {
        rank.one();
    }
    rank.kill(0, true);
    rank.all();
    assert_eq!(rank.printed, "last ");
}

#[test]
fn text_that_has_been_printed_is_not_kept_for_ever() {
    let mut rank = Rank::new(2);
    for _ in 0..5 {
        let text = "x".repeat(REPEATED as usize / 2);
        (0..2).for_each(|me| rank.feed(me, &text));
        rank.all();
    }
    let kept: Vec<u64> = rank.all.iter().flatten().map(|one| one.kept.len() as u64).collect();
    assert_eq!(kept, [0, 2 * REPEATED]);
    rank.kill(0, true);
    rank.feed(1, "end");
    rank.all();
    assert_eq!(rank.printed.len() as u64, 5 * REPEATED / 2 + 3);
}

#[test]
fn of_three_the_successor_prints_what_not_all_have_answered_about() {
    let mut rank = Rank::new(3);
    for me in 0..3 {
        rank.feed(me, "one ");
    }
    // Replica 1 answers, replica 2 has not been asked.
    rank.one();
    rank.kill(0, true);
    rank.all();
    assert_eq!(rank.printed, "one ");
    rank.feed(1, "two ");
    rank.feed(2, "two ");
    rank.all();
    rank.kill(1, false);
    rank.feed(2, "three ");
    rank.all();
    assert_eq!(rank.printed, "one two three ");
}

#[test]
fn who_prints_other_text_is_found() {
    let mut rank = Rank::new(3);
    for (me, text) in [(0, "one"), (1, "One"), (2, "one")] {
        rank.feed(me, text);
    }
    rank.all();
    assert_eq!((&*rank.printed, &rank.findings[..]), ("one", &[Act::Differs(1)][..]));
    let mut rank = Rank::new(2);
    for (me, text) in [(0, "one"), (1, "One")] {
        rank.feed(me, text);
    }
    rank.all();
    assert_eq!(rank.findings, [Act::Undecided(1)]);
}

#[test]
fn the_lowest_that_prints_other_text_than_both_others_is_named_once() {
    let mut rank = Rank::new(3);
    for text in ["One", "one", "one", "Two", "two", "two"].chunks(3) {
        (0..3).for_each(|me| rank.feed(me, text[usize::from(me)]));
        rank.all();
    }
    assert_eq!((&*rank.printed, &rank.findings[..]), ("OneTwo", &[Act::Differs(0)][..]));
}

/// Times have no fixed width.
#[test]
fn a_replica_that_prints_less_does_not_hold_the_others_up() {
    let mut rank = Rank::new(2);
    rank.feed(0, "99.9 s, ");
    rank.feed(1, "9 s, ");
    rank.all();
    assert_eq!(rank.printed, "");
    rank.end(1);
    rank.all();
    assert_eq!((&*rank.printed, &rank.findings[..]), ("99.9 s, ", &[Act::Undecided(1)][..]));
    rank.kill(0, true);
    rank.feed(1, "end");
    rank.all();
    assert_eq!(rank.printed, "99.9 s, ", "as many bytes were printed");
    rank.feed(1, "ing");
    rank.all();
    assert_eq!(rank.printed, "99.9 s, ing");
}
