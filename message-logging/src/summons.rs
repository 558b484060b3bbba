//! What a spawned process is told, in its environment: whose place it takes, and where the others are.

use std::ffi::CString;
use std::net::SocketAddrV4;

use event_log::determinant::Rank;
use serde::{Deserialize, Serialize};
use virtual_ranks::links::{KEY, Peer};
use virtual_ranks::processor_names::{LONGEST, Name};

use crate::world::Taking;

/// The variable of the environment.
const VARIABLE: &str = "RINGWATCH_REPLACES";
/// Bytes that a variable may have (`MAX_ARG_STRLEN` of Linux).
const MOST: usize = 128 << 10;

/// What a spawned process is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summons {
    /// The rank whose place it takes.
    pub rank: Rank,
    /// Its number.
    pub number: u32,
    /// The ranks of the program, and the spares that it has begun with.
    pub ranks: u32,
    /// As above.
    pub spares: u32,
    /// The places that others have taken.
    pub taken: Vec<Taking>,
    /// How all others are reached that live: the process, its number among all ranks of all jobs, and where it listens.
    pub peers: Vec<(u32, u32, SocketAddrV4)>,
    /// The job's key for connections.
    pub key: [u8; KEY],
    /// The number of the job for its checkpoints, if it has any.
    pub job: Option<u64>,
    /// The nodes of all processes that the job has begun with, each with so many of them.
    pub nodes: Vec<(String, u32)>,
}

/// A name without what follows its end.
fn text(name: &Name) -> String {
    String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Neighbours with the same name together.
pub fn shorten(nodes: &[Name]) -> Vec<(String, u32)> {
    nodes.chunk_by(|one, other| one == other).map(|same| (text(&same[0]), same.len() as u32)).collect()
}

impl Summons {
    /// The summons of this process, if it was spawned. It is taken out of the environment.
    ///
    /// # Errors
    /// A sentence, if it cannot be read.
    pub fn take() -> Result<Option<Self>, String> {
        let Ok(value) = std::env::var(VARIABLE) else { return Ok(None) };
        // SAFETY: in `MPI_Init`, before the program has threads that may read the environment.
        unsafe { std::env::remove_var(VARIABLE) };
        Self::decode(&value).map(Some).ok_or_else(|| format!("{VARIABLE} cannot be read"))
    }

    fn decode(value: &str) -> Option<Self> {
        let digits = |place: usize| u8::from_str_radix(value.get(place..place + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..value.len()).step_by(2).map(digits).collect();
        postcard::from_bytes(&bytes?).ok()
    }

    /// The variable.
    ///
    /// # Errors
    /// A sentence, if there are too many processes.
    pub fn variable(&self) -> Result<CString, String> {
        use std::fmt::Write;
        let mut text = format!("{VARIABLE}=");
        for byte in postcard::to_stdvec(self).unwrap_or_default() {
            let _ = write!(text, "{byte:02x}");
        }
        let fitting = Some(text).filter(|text| text.len() < MOST).and_then(|text| CString::new(text).ok());
        fitting.ok_or_else(|| "the job has too many processes to tell a new one of them".into())
    }

    /// The names of the nodes, one for each process.
    pub fn names(&self) -> Vec<Name> {
        let name = |text: &str| {
            let mut name = [0; LONGEST];
            name.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
            name
        };
        self.nodes.iter().flat_map(|(text, count)| std::iter::repeat_n(name(text), *count as usize)).collect()
    }

    /// How the others are reached.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.peers.iter().map(|(process, number, address)| Peer {
            process: *process,
            number: *number,
            address: *address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summons_comes_back_as_it_was() {
        let address = SocketAddrV4::new([10, 0, 0, 7].into(), 4321);
        let mut name = [0; LONGEST];
        name[..2].copy_from_slice(b"h1");
        let summons = Summons {
            rank: 3,
            number: 5,
            ranks: 6,
            spares: 1,
            taken: vec![(2, 1)],
            peers: vec![(0, 0, address), (3, 3, address)],
            key: [7; KEY],
            job: Some(9),
            nodes: shorten(&[name, name, [0; LONGEST]]),
        };
        let variable = summons.variable().unwrap().into_string().unwrap();
        let (_, value) = variable.split_once('=').unwrap();
        assert_eq!(Summons::decode(value), Some(summons.clone()));
        assert_eq!(Summons::decode(&value[1..]), None);
        assert_eq!((summons.nodes.len(), summons.names()), (2, vec![name, name, [0; LONGEST]]));
        assert_eq!(summons.peers().nth(1), Some(Peer { process: 3, number: 3, address }));
    }
}
