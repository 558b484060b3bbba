//! Bits that are flipped on request, to see them found: a list of `RANK[.REPLICA]:CALL[:BIT][@WHERE]`.
//!
//! | part | values | default |
//! |---|---|---|
//! | `RANK.REPLICA` | whose send | replica 0 |
//! | `CALL` | the number of its send, from 1; or `random/SEED/N`: one of N sends, drawn with this seed | |
//! | `BIT` | of the packed data, modulo its length; `random` | `random` |
//! | `WHERE` | `buffer` (what is sent to all), `memory` (the program's buffer), `wire` (what is sent to one replica) | `buffer` |

use std::str::FromStr;

use event_log::determinant::Rank;
use replication::replicas::Replica;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A text that is no list of flips.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} is no RANK[.REPLICA]:CALL[:BIT][@WHERE] (hook_ringwatch_corrupt)")]
pub struct NoFlip(String);

/// Where a bit is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the copy of the data that is sent.
    Buffer,
    /// In the program's buffer, before it is packed.
    Memory,
    /// In what is sent to one replica.
    Wire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Number(u64),
    Random { seed: u64, of: u64 },
}

/// Flips of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flip {
    replica: Replica,
    call: Call,
    bit: Option<u64>,
    place: Where,
}

/// The flips of this replica, and how many sends it has made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Flips {
    flips: Vec<Flip>,
    sends: u64,
}

/// A bit that is to be flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The number of the send.
    pub call: u64,
    /// The bit, of any number: modulo the length of the data.
    pub bit: u64,
    /// Where.
    pub place: Where,
}

impl FromStr for Flip {
    type Err = NoFlip;

    fn from_str(text: &str) -> Result<Self, NoFlip> {
        let wrong = || NoFlip(text.to_owned());
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let (what, place) = text.split_once('@').unwrap_or((text, "buffer"));
        let place = match place {
            "buffer" => Where::Buffer,
            "memory" => Where::Memory,
            "wire" => Where::Wire,
            _ => return Err(wrong()),
        };
        let mut parts = what.split(':');
        let whose = parts.next().ok_or_else(wrong)?;
        let (rank, index) = whose.split_once('.').unwrap_or((whose, "0"));
        let rank: Rank = rank.parse().map_err(|_| wrong())?;
        let replica = Replica { rank, index: index.parse().map_err(|_| wrong())? };
        let call = parts.next().ok_or_else(wrong)?;
        let call = match call.split('/').collect::<Vec<_>>()[..] {
            ["random", seed, of] => Call::Random { seed: number(seed)?, of: number(of)?.max(1) },
            [call] => Call::Number(number(call)?),
            _ => return Err(wrong()),
        };
        let bit = match parts.next() {
            None | Some("random") => None,
            Some(bit) => Some(number(bit)?),
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { replica, call, bit, place })
    }
}

impl Flips {
    /// Those of one replica in a list. Items are apart by commas.
    ///
    /// # Errors
    /// The item that is none.
    pub fn of(list: &str, replica: Replica) -> Result<Self, NoFlip> {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let all = items.map(str::parse).collect::<Result<Vec<Flip>, _>>()?;
        Ok(Self { flips: all.into_iter().filter(|flip| flip.replica == replica).collect(), sends: 0 })
    }

    /// This replica sends. Returns what is to be flipped.
    pub fn count(&mut self) -> Option<Hit> {
        self.sends += 1;
        let call = self.sends;
        self.flips.iter().find_map(|flip| {
            let Replica { rank, index } = flip.replica;
            let drawn = |seed: u64| xxh3_64_with_seed(format!("{rank}.{index}:{call}").as_bytes(), seed);
            let seed = match flip.call {
                Call::Number(number) => (number == call).then_some(0)?,
                Call::Random { seed, of } => (drawn(seed) % of == 0).then_some(seed)?,
            };
            let bit = flip.bit.unwrap_or_else(|| drawn(!seed));
            Some(Hit { call, bit, place: flip.place })
        })
    }
}

/// Flips a bit. Returns its number in the data; `None` if there is no data.
pub fn flip(data: &mut [u8], bit: u64) -> Option<u64> {
    let bits = data.len() as u64 * 8;
    let bit = bit.checked_rem(bits)?;
    data[(bit / 8) as usize] ^= 1 << (bit % 8);
    Some(bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &str, rank: Rank, index: u8) -> Flips {
        Flips::of(list, Replica { rank, index }).unwrap()
    }

    #[test]
    fn the_sends_of_a_list_are_hit_and_no_others() {
        let mut flips = of("1:3:7, 1.1:1@wire, 2:1", 1, 0);
        let hits: Vec<_> = (0..5).map(|_| flips.count()).collect();
        assert_eq!(hits, [None, None, Some(Hit { call: 3, bit: 7, place: Where::Buffer }), None, None]);
        assert_eq!(of("1:3:7, 1.1:1@wire, 2:1", 1, 1).count().unwrap().place, Where::Wire);
        assert_eq!(of("", 0, 0).count(), None);
    }

    #[test]
    fn random_sends_are_the_same_with_the_same_seed() {
        let hits = |seed: u32| {
            let mut flips = of(&format!("0.2:random/{seed}/10@memory"), 0, 2);
            (0..1000).filter_map(|_| flips.count()).collect::<Vec<_>>()
        };
        assert_eq!(hits(7), hits(7));
        assert_ne!(hits(7), hits(8));
        assert!((50..150).contains(&hits(7).len()), "one of ten: {}", hits(7).len());
    }

    #[test]
    fn what_is_no_flip_is_named() {
        for text in ["0", "x:1", "0:x", "0:1:x", "0:1:2:3", "0:1@disk", "0:random/1", "0.x:1"] {
            assert_eq!(Flips::of(text, Replica { rank: 0, index: 0 }), Err(NoFlip(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_bit_is_one_of_the_data() {
        let mut data = [0, 0];
        assert_eq!((flip(&mut data, 16 + 9), data), (Some(9), [0, 2]));
        assert_eq!(flip(&mut [], 3), None);
    }
}
