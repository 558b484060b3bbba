//! What is promised of every info key of a communicator, told by `programs/keys.c`.

use crate::diary::Entry;
use crate::job::Job;
use crate::lab::in_lab;
use crate::programs::compile;

/// `MPI_ERR_INFO_VALUE`.
const INFO_VALUE: &str = "33";

/// A property of communicators, and how it is spelled.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// What `programs/keys.c` knows it by.
    pub name: &'static str,
    /// The spellings of its key, the main one first.
    pub keys: &'static [&'static str],
    /// Each word for a value, and the value.
    pub words: &'static [(&'static str, &'static str)],
    /// The value that the program gives to what others inherit from.
    pub inherited: &'static str,
    /// The last of several values in one info.
    pub last: &'static str,
    /// How a refusal names the values.
    pub choices: &'static str,
}

impl Property {
    /// Checks every spelling and every word; what inherits; what is refused.
    pub fn is_kept(&self) {
        let Self { inherited, last, .. } = *self;
        let cases = [
            ("world", "local"),
            ("self", "local"),
            ("dup_with_info", inherited),
            ("dup", inherited),
            ("dup-of-dup", inherited),
            ("idup", inherited),
            ("changed", "local"),
            ("origin-of-changed", inherited),
            ("dup-of-changed", "local"),
            ("split", "local"),
            ("split_type", inherited),
            ("last:range", last),
            ("last:other", last),
            ("last:unused", "-"),
            ("last:main", "local"),
            ("bad", inherited),
            ("bad-alias:own", "-"),
            ("bad-alias:main", inherited),
            // Nothing is taken from a value that is refused, so it has what it inherits.
            ("bad-dup", inherited),
        ];
        in_lab(|lab| {
            let outcome = Job::new().ranks(2).diarist(&compile("keys", "mpicc")).arguments(&[self.name]).run(lab);
            for rank in 0..2 {
                let require = |name: &str, expected: &str| {
                    let mut entries = outcome.diaries.of(rank).filter(|entry| entry.event == "info");
                    let value = entries.find(|entry| entry.details[0] == name).map(|entry| entry.details[1].clone());
                    outcome
                        .require(value.as_deref() == Some(expected), &format!("{name} is {expected}, not {value:?}"));
                };
                for key in self.keys {
                    for (word, meant) in self.words {
                        require(&format!("{key}={word}:own"), meant);
                        require(&format!("{key}={word}:main"), meant);
                    }
                }
                cases.iter().for_each(|(name, expected)| require(name, expected));
                require("spawner-child", "local");
                let refused: Vec<String> =
                    outcome.diaries.of(rank).filter(|entry| entry.event == "handler").map(Entry::text).collect();
                let as_promised = refused.len() == 3
                    && ["set", "set-alias", "dup"].iter().zip(&refused).all(|(name, text)| {
                        text.starts_with(&format!("{name} {INFO_VALUE} ")) && text.contains(self.choices)
                    });
                outcome.require(as_promised, &format!("each bad value is an error of the communicator: {refused:?}"));
                outcome.finalized(rank);
            }
            let spawned: Vec<_> = outcome.diaries.of(0).filter(|entry| entry.text().starts_with("spawned-")).collect();
            let spawned: Vec<String> = spawned.into_iter().map(Entry::text).collect();
            let as_promised = spawned == ["spawned-world local", "spawned-parent local"];
            outcome.require(as_promised, &format!("communicators of the spawned process are local: {spawned:?}"));
            let told = outcome.stderr.contains(&format!("{} cannot be 'everybody'", self.keys[0]));
            outcome.require(told, "the sentence names key and value");
        });
    }
}
