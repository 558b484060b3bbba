//! The file format at every byte, and the folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoints::file::{Head, Unreadable, check, write};
use checkpoints::folder::Folder;
use checkpoints::region::Region;
use checkpoints::whole::{NotLoaded, Whole, encode};
use proptest::prelude::*;

fn head(version: u32, layer: &[u8], regions: &[Vec<u8>]) -> Head {
    let regions = (7..).zip(regions).map(|(id, region)| (id, region.len() as u64)).collect();
    Head { job: 99, rank: 1, ranks: 2, version, layer: layer.len() as u64, regions }
}

fn encoded(head: &Head, layer: &[u8], regions: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, head, layer, regions.iter().map(Vec::as_slice)).unwrap();
    bytes
}

fn checked(bytes: &[u8]) -> Result<(Head, Vec<u8>), Unreadable> {
    check(bytes, bytes.len() as u64)
}

/// A new folder that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("checkpoints.{name}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn folder(&self, rank: u32) -> Folder {
        fs::create_dir_all(&self.0).unwrap();
        Folder::new(&self.0, 0, rank, "h1", 5)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_is_cut_off_at_any_byte_or_longer_is_refused() {
    let regions = [vec![1, 2, 3], vec![], vec![9; 200]];
    let head = head(4, b"layer", &regions);
    let whole = encoded(&head, b"layer", &regions);
    assert_eq!(checked(&whole).unwrap(), (head, b"layer".to_vec()));
    for length in 0..whole.len() {
        assert!(matches!(checked(&whole[..length]), Err(Unreadable::Length { .. })), "at {length}");
    }
    assert!(matches!(checked(&[&whole[..], &[0]].concat()), Err(Unreadable::Length { .. })));
    assert!(matches!(checked(b"ELF and so on, longer than a head and a check sum ..."), Err(Unreadable::Foreign)));
}

#[test]
fn a_file_with_any_changed_bit_is_refused() {
    let regions = [vec![1, 2, 3], vec![9; 20]];
    let whole = encoded(&head(4, b"layer", &regions), b"layer", &regions);
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(checked(&changed).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn memory_comes_back_as_it_was_and_no_cut_is_taken_for_a_file(
        layer in prop::collection::vec(any::<u8>(), 0..300),
        regions in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let head = head(3, &layer, &regions);
        let whole = encoded(&head, &layer, &regions);
        prop_assert_eq!(checked(&whole).unwrap(), (head.clone(), layer));
        let mut memory: Vec<Vec<u8>> = regions.iter().map(|region| vec![0; region.len()]).collect();
        let targets = memory.iter_mut().map(Vec::as_mut_slice);
        checkpoints::file::load(&whole[..], whole.len() as u64, &head, targets).unwrap();
        prop_assert_eq!(&memory, &regions);
        prop_assert!(checked(&whole[..cut.index(whole.len())]).is_err());
    }

    /// Whatever the bytes are.
    #[test]
    fn no_file_makes_the_reader_fail_otherwise_than_by_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        begins_well in any::<bool>(),
    ) {
        let magic = checkpoints::file::MAGIC;
        if begins_well && bytes.len() >= magic.len() {
            bytes[..magic.len()].copy_from_slice(&magic);
        }
        prop_assert!(checked(&bytes).is_err());
    }
}

fn save(folder: &Folder, version: u32, data: u8) -> PathBuf {
    let regions = [vec![data; 50]];
    let head = head(version, b"", &regions);
    folder.write(&head, b"", regions.iter().map(Vec::as_slice)).unwrap();
    folder.path().join(format!("rank-1.version-{version}"))
}

fn last(folder: &Folder, told: &mut Vec<String>) -> Option<u32> {
    let tell = |path: &Path, reason: &Unreadable| told.push(format!("{} {reason}", path.display()));
    folder.last_whole(u64::MAX, |head| head.job == 99, tell).map(|whole| whole.head.version)
}

#[test]
fn the_last_whole_version_counts_whatever_byte_the_newest_is_cut_off_at() {
    let place = Place::new("cut");
    let folder = place.folder(1);
    save(&folder, 4, 4);
    let newest = save(&folder, 11, 11);
    let whole = fs::read(&newest).unwrap();
    assert_eq!(last(&folder, &mut Vec::new()), Some(11));
    for length in 0..whole.len() {
        fs::write(&newest, &whole[..length]).unwrap();
        let mut told = Vec::new();
        assert_eq!(last(&folder, &mut told), Some(4), "cut off at {length}");
        assert!(told.len() == 1 && told[0].contains("rank-1.version-11 has"), "{told:?}");
    }
}

#[test]
fn files_of_other_jobs_and_ranks_do_not_count() {
    let place = Place::new("others");
    let folder = place.folder(1);
    save(&folder, 4, 4);
    fs::copy(place.0.join("rank-1.version-4"), place.0.join("rank-0.version-9")).unwrap();
    assert!(folder.last_whole(u64::MAX, |head| head.job == 7, |_, _| ()).is_none());
    assert_eq!(place.folder(0).versions(), [9]);
    assert_eq!(last(&place.folder(0), &mut Vec::new()), None, "it was copied from another rank");
}

#[test]
fn memory_is_written_only_from_a_file_that_fits_it() {
    let place = Place::new("memory");
    let folder = place.folder(1);
    save(&folder, 4, 44);
    let whole = folder.read(4).unwrap().unwrap();
    let mut memory = vec![0_u8; 50];
    let region = |id, bytes, memory: &mut Vec<u8>| Region { id, address: memory.as_mut_ptr().cast(), bytes };
    for other in [region(7, 49, &mut memory), region(8, 50, &mut memory)] {
        // SAFETY: memory of that size.
        let loaded = unsafe { whole.load(&[other]) };
        assert!(matches!(loaded, Err(NotLoaded::OtherRegions)) && memory == [0; 50]);
    }
    // SAFETY: as above.
    assert!(matches!(unsafe { whole.load(&[]) }, Err(NotLoaded::OtherRegions)));
    // SAFETY: as above.
    unsafe { whole.load(&[region(7, 50, &mut memory)]) }.unwrap();
    assert_eq!(memory, [44; 50]);
}

#[test]
fn in_memory_a_checkpoint_is_what_it_is_in_a_file() {
    let place = Place::new("encoded");
    let folder = place.folder(1);
    save(&folder, 4, 44);
    let whole = folder.read(4).unwrap().unwrap();
    let encoded = encode(&whole.head, &whole.layer, [&[44; 50][..]].into_iter()).unwrap();
    assert_eq!(encoded, fs::read(place.0.join("rank-1.version-4")).unwrap());
    let decoded = Whole::decode(Arc::new(encoded.clone())).unwrap();
    let mut memory = vec![0_u8; 50];
    // SAFETY: memory of that size.
    unsafe { decoded.load(&[Region { id: 7, address: memory.as_mut_ptr().cast(), bytes: 50 }]) }.unwrap();
    assert_eq!((decoded.head, memory), (whole.head, vec![44; 50]));
    for length in 0..encoded.len() {
        Whole::decode(Arc::new(encoded[..length].to_vec())).unwrap_err();
    }
}

#[test]
fn old_versions_and_what_was_not_ended_go_and_those_of_others_stay() {
    let place = Place::new("old");
    let (folder, other) = (place.folder(1), place.folder(0));
    for version in [3, 4, 5] {
        save(&folder, version, 0);
    }
    fs::write(place.0.join("rank-1.version-5.h9-7.new"), b"half").unwrap();
    for name in ["rank-0.version-4", "rank-0.version-5", "rank-11.version-3", "notes"] {
        fs::write(place.0.join(name), b"").unwrap();
    }
    assert_eq!((folder.oldest_needed(2), folder.oldest_needed(3)), (Some(4), None));
    folder.remove_below(4);
    let expected =
        ["notes", "rank-0.version-4", "rank-0.version-5", "rank-1.version-4", "rank-1.version-5", "rank-11.version-3"];
    assert_eq!(place.names(), expected);
    other.remove_all();
    assert_eq!(place.names(), ["notes", "rank-1.version-4", "rank-1.version-5", "rank-11.version-3"]);
}

#[test]
fn a_version_that_cannot_be_written_leaves_the_one_before() {
    let place = Place::new("unwritten");
    let folder = place.folder(1);
    save(&folder, 4, 4);
    // A folder in its place.
    fs::create_dir(place.0.join("rank-1.version-5")).unwrap();
    let regions = [vec![5; 50]];
    folder.write(&head(5, b"", &regions), b"", regions.iter().map(Vec::as_slice)).unwrap_err();
    assert_eq!(place.names(), ["rank-1.version-4", "rank-1.version-5"]);
    assert_eq!(last(&folder, &mut Vec::new()), Some(4));
}
