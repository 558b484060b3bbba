//! The output of a rank that several processes print, so that each byte appears once: no I/O.
//!
//! A process says of each piece of text which rank prints it and where in the rank's output it stands. `mpirun`,
//! through which all output goes, takes each place once, from the process whose text comes first. So a process may
//! print again what may have been lost with another one, and nobody has to know how far the other one came.
//!
//! A frame is a header of [`HEADER`] bytes and the text:
//! `ESC _ ringwatch RANK PLACE LENGTH ESC \`, the numbers in hexadecimal. Terminals do not show such a sequence. What
//! stands outside of frames passes as it is.

use std::collections::BTreeMap;
use std::ops::Range;

/// How much of what has been printed a process prints again in place of a dead one, in bytes: more than is on its way
/// to `mpirun` from one process.
pub const REPEATED: u64 = 1 << 20;

/// What a header begins with.
const MARK: &[u8] = b"\x1b_ringwatch ";
/// What it ends with.
const END: &[u8] = b"\x1b\\";
/// Bytes of a header: rank and length have eight digits, the place sixteen.
pub const HEADER: usize = MARK.len() + 8 + 1 + 16 + 1 + 8 + END.len();

/// Frames for text that stands at this place in the output of a rank.
pub fn frames(rank: u32, place: u64, text: &[u8]) -> Vec<u8> {
    let mut frames = Vec::with_capacity(text.len() + HEADER);
    let mut place = place;
    for part in text.chunks(1 << 30) {
        frames.extend_from_slice(MARK);
        frames.extend_from_slice(format!("{rank:08x} {place:016x} {:08x}", part.len()).as_bytes());
        frames.extend_from_slice(END);
        frames.extend_from_slice(part);
        place = place.saturating_add(part.len() as u64);
    }
    frames
}

/// The frame whose text is coming.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    rank: u32,
    place: u64,
    left: usize,
}

impl Frame {
    /// That of a header.
    fn decode(header: &[u8]) -> Option<Self> {
        let numbers = header.strip_prefix(MARK)?.strip_suffix(END)?;
        let mut numbers =
            std::str::from_utf8(numbers).ok()?.split(' ').map(|digits| u64::from_str_radix(digits, 16).ok());
        let mut next = || numbers.next().flatten();
        Some(Self { rank: u32::try_from(next()?).ok()?, place: next()?, left: usize::try_from(next()?).ok()? })
    }
}

/// What one process has printed and is not complete.
#[derive(Debug, Default)]
struct Process {
    /// The beginning of what may be a header.
    begun: Vec<u8>,
    frame: Frame,
}

/// What is to be printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The text.
    pub text: Vec<u8>,
    /// Places in the output of a rank that nobody has printed, and whose text is lost.
    pub lost: Vec<(u32, Range<u64>)>,
}

/// Merges what the processes of a job print.
#[derive(Debug)]
pub struct Merger<P> {
    processes: BTreeMap<P, Process>,
    /// By rank: all before this place is printed.
    printed: BTreeMap<u32, u64>,
}

impl<P> Default for Merger<P> {
    fn default() -> Self {
        Self { processes: BTreeMap::new(), printed: BTreeMap::new() }
    }
}

impl<P: Ord> Merger<P> {
    /// A process has printed these bytes, of which a frame may have any part.
    pub fn take(&mut self, process: P, bytes: &[u8]) -> Merged {
        let process = self.processes.entry(process).or_default();
        let mut merged = Merged::default();
        let input = [&std::mem::take(&mut process.begun), bytes].concat();
        let mut rest = &input[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(process.frame.left.min(rest.len()));
            print(&mut self.printed, &mut process.frame, part, &mut merged);
            let (outside, from_mark) = after.split_at(begin_of_mark(after));
            merged.text.extend_from_slice(outside);
            rest = match from_mark.split_at_checked(HEADER) {
                None => {
                    process.begun = from_mark.to_vec();
                    return merged;
                }
                Some((header, text)) => match Frame::decode(header) {
                    Some(frame) => {
                        process.frame = frame;
                        text
                    }
                    None => {
                        merged.text.push(from_mark[0]);
                        &from_mark[1..]
                    }
                },
            };
        }
        merged
    }
}

/// Adds the part of a frame that is not printed yet.
fn print(printed: &mut BTreeMap<u32, u64>, frame: &mut Frame, part: &[u8], merged: &mut Merged) {
    if part.is_empty() {
        return;
    }
    let printed = printed.entry(frame.rank).or_default();
    if *printed < frame.place {
        merged.lost.push((frame.rank, *printed..frame.place));
        *printed = frame.place;
    }
    let known = usize::try_from(*printed - frame.place).map_or(part.len(), |known| known.min(part.len()));
    merged.text.extend_from_slice(&part[known..]);
    frame.place = frame.place.saturating_add(part.len() as u64);
    frame.left -= part.len();
    *printed = (*printed).max(frame.place);
}

/// Where a mark begins, or what may become one; the length if there is none.
fn begin_of_mark(bytes: &[u8]) -> usize {
    let may_begin = |from: &usize| bytes[*from..].iter().zip(MARK).all(|(byte, mark)| byte == mark);
    (0..bytes.len()).find(may_begin).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(merger: &mut Merger<u32>, process: u32, bytes: &[u8]) -> String {
        let merged = merger.take(process, bytes);
        assert_eq!(merged.lost, []);
        String::from_utf8(merged.text).expect("text")
    }

    #[test]
    fn text_outside_of_frames_passes_as_it_is() {
        let mut merger = Merger::default();
        assert_eq!(text(&mut merger, 0, b"one\x1b[1mtwo"), "one\x1b[1mtwo");
        let bad = [MARK, b"no header of a frame is like this one", b"three"].concat();
        assert_eq!(text(&mut merger, 0, &bad).as_bytes(), bad);
    }

    #[test]
    fn each_place_is_printed_once_whoever_prints_it() {
        let mut merger = Merger::default();
        assert_eq!(text(&mut merger, 0, &frames(3, 0, b"one two ")), "one two ");
        assert_eq!(text(&mut merger, 1, &frames(3, 0, b"one two three ")), "three ");
        assert_eq!(text(&mut merger, 0, &frames(3, 8, b"three ")), "");
        assert_eq!(text(&mut merger, 2, &frames(4, 0, b"of another rank ")), "of another rank ");
        assert_eq!(text(&mut merger, 1, &[&frames(3, 14, b"four ")[..], b"outside"].concat()), "four outside");
    }

    #[test]
    fn a_frame_may_come_in_any_parts_and_end_with_its_process() {
        let all =
            [&b"before "[..], &frames(1, 0, b"one "), &frames(1, 4, b""), &frames(1, 4, b"two "), b"after"].concat();
        for at in 0..all.len() {
            for then in [at, (at + 7).min(all.len())] {
                let mut merger = Merger::default();
                let parts = [&all[..at], &all[at..then], &all[then..]];
                let printed: String = parts.iter().map(|part| text(&mut merger, 0, part)).collect();
                assert_eq!(printed, "before one two after", "cut at {at} and {then}");
            }
        }
    }

    #[test]
    fn another_process_goes_on_where_one_has_died() {
        let all = [frames(1, 0, b"one "), frames(1, 4, b"two ")].concat();
        for at in 0..all.len() {
            let mut merger = Merger::default();
            let begun = text(&mut merger, 0, &all[..at]);
            let whole = text(&mut merger, 1, &frames(1, 0, b"one two three"));
            assert_eq!(format!("{begun}{whole}"), "one two three", "dead at {at}");
        }
    }

    #[test]
    fn what_nobody_has_printed_is_said() {
        let mut merger = Merger::default();
        text(&mut merger, 0, &frames(1, 0, b"one "));
        let merged = merger.take(1, &frames(1, 8, b"three "));
        assert_eq!((&*merged.text, &*merged.lost), (&b"three "[..], &[(1, 4..8)][..]));
        assert_eq!(text(&mut merger, 0, &frames(1, 4, b"two three four")), "four");
        let far = merger.take(2, &frames(1, u64::MAX, b"far"));
        assert_eq!(far.lost, [(1, 18..u64::MAX)]);
    }
}
