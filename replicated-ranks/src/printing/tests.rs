use super::*;

/// Replicas of a rank, whose words arrive at once or wait.
struct Rank {
    all: Vec<Option<Printing>>,
    waiting: Vec<(u8, u8, Word)>,
    printed: String,
    findings: Vec<Act>,
}

impl Rank {
    fn new(replicas: u8) -> Self {
        let living = Indices::first(replicas);
        let all = (0..replicas).map(|me| Some(Printing::new(me, living))).collect();
        Self { all, waiting: Vec::new(), printed: String::new(), findings: Vec::new() }
    }

    fn carry_out(&mut self, me: u8, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Tell(to, word) => self.waiting.push((me, to, word)),
                Act::Write(text) => self.printed += &String::from_utf8(text).unwrap(),
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

    fn all(&mut self) {
        while !self.waiting.is_empty() {
            self.one();
        }
    }

    /// A replica dies with what it has said.
    fn kill(&mut self, dead: u8) {
        self.all[usize::from(dead)] = None;
        self.waiting.retain(|(from, ..)| *from != dead);
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
    assert!(rank.all.iter().flatten().all(Printing::is_done));
}

#[test]
fn a_successor_goes_on_where_the_dead_has_ended() {
    for words_before in 0..5 {
        let mut rank = Rank::new(2);
        for me in [0, 1] {
            rank.feed(me, "one ");
        }
        for _ in 0..words_before.min(rank.waiting.len() + 1) {
            if !rank.waiting.is_empty() {
                rank.one();
            }
        }
        // A word that is lost has the text printed again: it has arrived here.
        if rank.waiting.iter().any(|(.., word)| matches!(word, Word::Printed { .. })) {
            rank.all();
        }
        rank.kill(0);
        rank.feed(1, "two ");
        rank.all();
        assert_eq!(rank.printed, "one two ", "after {words_before} words");
    }
}

#[test]
fn of_three_the_successor_prints_what_not_all_have_answered_about() {
    let mut rank = Rank::new(3);
    for me in 0..3 {
        rank.feed(me, "one ");
    }
    // Replica 1 answers, replica 2 has not been asked.
    rank.one();
    rank.kill(0);
    rank.all();
    assert_eq!(rank.printed, "one ");
    rank.feed(1, "two ");
    rank.feed(2, "two ");
    rank.all();
    rank.kill(1);
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
    let mut acts = Vec::new();
    rank.all[1].as_mut().unwrap().end(&mut acts);
    rank.carry_out(1, acts);
    rank.all();
    assert_eq!((&*rank.printed, &rank.findings[..]), ("99.9 s, ", &[Act::Undecided(1)][..]));
    rank.kill(0);
    rank.feed(1, "end");
    rank.all();
    assert_eq!(rank.printed, "99.9 s, ", "as many bytes were printed");
    rank.feed(1, "ing");
    assert_eq!(rank.printed, "99.9 s, ing");
}
