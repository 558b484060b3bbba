//! How many messages the peers of a replacement send it again.

use event_log::determinant::Rank;

/// What they have told since the last repair.
#[derive(Default)]
pub struct Resent {
    messages: u64,
    /// So many peers have told.
    peers: u32,
    /// The version that this process has started from.
    version: Option<u32>,
    is_said: bool,
}

impl Resent {
    /// Everybody tells again.
    pub fn begin(&mut self) {
        (self.messages, self.peers) = (0, 0);
    }

    /// This process has started from a checkpoint.
    pub fn start_from(&mut self, version: u32) {
        self.version = Some(version);
    }

    /// A peer sends so many. Returns what is said about that, once: when all have told.
    pub fn hear(&mut self, messages: u64, rank: Rank, ranks: u32) -> Option<String> {
        self.messages += messages;
        self.peers += 1;
        if self.peers + 1 < ranks || std::mem::replace(&mut self.is_said, true) {
            return None;
        }
        let version = |version| format!("version {version} of its checkpoints");
        let start = self.version.map_or("its start".into(), version);
        let count = self.messages;
        Some(format!("ringwatch: rank {rank} runs again from {start}: its peers send it {count} messages again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_when_all_have_told_since_the_last_repair() {
        let mut resent = Resent::default();
        resent.start_from(40);
        assert_eq!(resent.hear(9, 3, 3), None);
        resent.begin();
        assert_eq!(resent.hear(2, 3, 3), None);
        let line =
            "ringwatch: rank 3 runs again from version 40 of its checkpoints: its peers send it 7 messages again";
        assert_eq!(resent.hear(5, 3, 3).as_deref(), Some(line));
        resent.begin();
        assert!(resent.hear(1, 3, 2).is_none());
    }
}
