//! Graphs of which each member knows some edges (`MPI_Dist_graph_create`).
//!
//! Open MPI's members tell each other of their edges in messages, and look at no error of these
//! (topo_base_dist_graph_create.c:213): with a dead member they wait for ever, or have another graph. A function of this
//! module takes the place of that one in libmpi's table of jumps. It tells everybody of his edges by collective operations
//! of the new communicator, on whose end all agree if that is uniform.

use std::ffi::{CStr, c_int};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::internals::Internals;
use crate::objects::{Base, Class, Object};
use crate::openmpi::Library;
use crate::statement::{About, ERR_INTERN};
use crate::uniform;

const DISTRIBUTE: &CStr = c"mca_topo_base_dist_graph_distribute";
/// In the table of a communicator's collectives.
const ALLTOALL: usize = 3;
const ALLTOALLV: usize = 4;
/// `MPI_UNWEIGHTED`
const UNWEIGHTED: usize = 2;
/// A neighbour and a weight.
const WORDS: usize = 2;

type Exchange = unsafe extern "C" fn(*const c_int, c_int, Object, *mut c_int, c_int, Object, Object, Object) -> c_int;
#[rustfmt::skip]
type ExchangeMany = unsafe extern "C" fn(
    *const c_int, *const c_int, *const c_int, Object, *mut c_int, *const c_int, *const c_int, Object, Object, Object,
) -> c_int;

/// `mca_topo_base_comm_dist_graph_2_2_0_t`
#[repr(C)]
struct Graph {
    base: Base,
    /// From where edges come to this process, and their weights.
    sources: *mut c_int,
    source_weights: *mut c_int,
    /// Where edges lead to from it, and their weights.
    destinations: *mut c_int,
    destination_weights: *mut c_int,
    source_count: c_int,
    destination_count: c_int,
    is_weighted: bool,
}

struct Stock {
    class: *mut Class,
    integer: Object,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Stands where such graphs are made. At the end of `MPI_Init`.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Internals::fitting()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    let class: *mut Class = library.symbol(c"mca_topo_base_comm_dist_graph_2_2_0_t_class")?.cast();
    let integer = library.predefined(c"ompi_mpi_int")?;
    // SAFETY: a class of Open MPI; the function has the type of the one whose place it takes.
    unsafe {
        if (*class).size == size_of::<Graph>() && STOCK.set(Stock { class, integer }).is_ok() {
            library.redirect(DISTRIBUTE, distribute as *const _);
        }
    }
    Some(())
}

/// Makes the part of a graph that concerns this process: from each of these nodes lead as many edges as its degree says, to
/// the next of the targets.
unsafe extern "C" fn distribute(
    _module: Object,
    comm: Object,
    count: c_int,
    nodes: *const c_int,
    degrees: *const c_int,
    targets: *const c_int,
    weights: *const c_int,
    made: *mut Object,
) -> c_int {
    let make = || {
        let (Some(mpi), Some(stock)) = (Internals::fitting(), STOCK.get()) else { return ERR_INTERN };
        let weights = Some(weights).filter(|weights| *weights as usize != UNWEIGHTED);
        // SAFETY: Open MPI passes lists of that many elements, which it has checked, and a communicator that has its
        // collectives; what is made here is nobody else's.
        unsafe {
            let edges = edges(count, nodes, degrees, targets, weights);
            let mut graph = std::ptr::null_mut();
            let code = uniform::agree_on(comm, About::Members, || match tell(mpi, stock.integer, comm, &edges) {
                Ok(mine) => {
                    graph = stock.graph(mpi, &mine, weights.is_some());
                    if graph.is_null() { ERR_INTERN } else { 0 }
                }
                Err(code) => code,
            });
            match (code, graph.is_null()) {
                (0, _) => made.write(graph.cast()),
                (_, false) => mpi.classes.destroy(graph.cast()),
                (_, true) => {}
            }
            code
        }
    };
    catch_unwind(AssertUnwindSafe(make)).unwrap_or(ERR_INTERN)
}

#[derive(Clone, Copy)]
struct Edge {
    from: c_int,
    to: c_int,
    weight: c_int,
}

/// # Safety
/// As many nodes and degrees, and as many targets and weights as the sum of these.
unsafe fn edges(
    count: c_int,
    nodes: *const c_int,
    degrees: *const c_int,
    targets: *const c_int,
    weights: Option<*const c_int>,
) -> Vec<Edge> {
    let mut edges = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as required of the caller.
        unsafe {
            for _ in 0..*degrees.add(index) {
                let place = edges.len();
                let weight = weights.map_or(0, |weights| *weights.add(place));
                edges.push(Edge { from: *nodes.add(index), to: *targets.add(place), weight });
            }
        }
    }
    edges
}

/// The neighbours of this process, each with the weight of the edge.
#[derive(Default)]
struct Neighbours {
    sources: Vec<[c_int; WORDS]>,
    destinations: Vec<[c_int; WORDS]>,
}

/// Tells everybody of his edges, and is told of its own; or a code of MPI.
///
/// # Safety
/// A communicator that lives and has its collectives, in an Open MPI that fits.
unsafe fn tell(mpi: &Internals, integer: Object, comm: Object, edges: &[Edge]) -> Result<Neighbours, c_int> {
    let size = usize::try_from(mpi.size_of(comm)).unwrap_or(0);
    let mut told: Vec<Neighbours> = (0..size).map(|_| Neighbours::default()).collect();
    for edge in edges {
        let at = |rank: c_int| usize::try_from(rank).unwrap_or(usize::MAX);
        told.get_mut(at(edge.from)).ok_or(ERR_INTERN)?.destinations.push([edge.to, edge.weight]);
        told.get_mut(at(edge.to)).ok_or(ERR_INTERN)?.sources.push([edge.from, edge.weight]);
    }
    let number = |count: usize| c_int::try_from(count).map_err(|_| ERR_INTERN);
    let mut counts = Vec::new();
    for one in &told {
        counts.extend([number(one.sources.len())?, number(one.destinations.len())?]);
    }
    let words: Vec<c_int> =
        told.iter().flat_map(|one| one.sources.iter().chain(&one.destinations)).flatten().copied().collect();
    // SAFETY: as required of the caller; the table has these functions there, and there is room for what comes.
    unsafe {
        let table = mpi.table(comm);
        let mut coming = vec![0; counts.len()];
        let exchange = transmute::<Object, Exchange>(table[ALLTOALL].function);
        let module = table[ALLTOALL].module;
        let code = exchange(
            counts.as_ptr(),
            WORDS as c_int,
            integer,
            coming.as_mut_ptr(),
            WORDS as c_int,
            integer,
            comm,
            module,
        );
        if code != 0 {
            return Err(code);
        }
        let ([sent, from], [got, to]) = (places(&counts)?, places(&coming)?);
        let mut there = vec![0; got.iter().map(|count| usize::try_from(*count).unwrap_or(0)).sum()];
        let exchange = transmute::<Object, ExchangeMany>(table[ALLTOALLV].function);
        let module = table[ALLTOALLV].module;
        let (data, room) = (words.as_ptr(), there.as_mut_ptr());
        let code = exchange(
            data,
            sent.as_ptr(),
            from.as_ptr(),
            integer,
            room,
            got.as_ptr(),
            to.as_ptr(),
            integer,
            comm,
            module,
        );
        if code != 0 {
            return Err(code);
        }
        let mut mine = Neighbours::default();
        let mut pairs = there.chunks_exact(WORDS).map(|pair| [pair[0], pair[1]]);
        for one in coming.chunks_exact(WORDS) {
            mine.sources.extend(pairs.by_ref().take(usize::try_from(one[0]).unwrap_or(0)));
            mine.destinations.extend(pairs.by_ref().take(usize::try_from(one[1]).unwrap_or(0)));
        }
        Ok(mine)
    }
}

/// How many words go to or come from each, and where they begin, if so many edges of both kinds do.
fn places(counts: &[c_int]) -> Result<[Vec<c_int>; 2], c_int> {
    let (mut lengths, mut begins, mut begin) = (Vec::new(), Vec::new(), 0_i64);
    for one in counts.chunks_exact(WORDS) {
        let length = (i64::from(one[0]) + i64::from(one[1])) * WORDS as i64;
        let number = |count: i64| c_int::try_from(count).map_err(|_| ERR_INTERN);
        lengths.push(number(length)?);
        begins.push(number(begin)?);
        begin += length;
    }
    Ok([lengths, begins])
}

impl Stock {
    /// Open MPI's object, or null if there is no memory.
    ///
    /// # Safety
    /// The class of a [`Graph`].
    unsafe fn graph(&self, mpi: &Internals, mine: &Neighbours, is_weighted: bool) -> *mut Graph {
        // SAFETY: as required of the caller; nobody else knows the object yet.
        unsafe {
            let object = mpi.classes.object(self.class).cast::<Graph>();
            let Some(graph) = object.as_mut() else { return object };
            let lists = [
                (&mut graph.sources, &mine.sources, 0, true),
                (&mut graph.source_weights, &mine.sources, 1, is_weighted),
                (&mut graph.destinations, &mine.destinations, 0, true),
                (&mut graph.destination_weights, &mine.destinations, 1, is_weighted),
            ];
            for (list, neighbours, word, is_wanted) in lists {
                if is_wanted && !neighbours.is_empty() {
                    // Open MPI frees it.
                    *list = libc::malloc(size_of_val(&neighbours[..]) / WORDS).cast();
                    if list.is_null() {
                        mpi.classes.destroy(object.cast());
                        return std::ptr::null_mut();
                    }
                    neighbours.iter().enumerate().for_each(|(index, pair)| list.add(index).write(pair[word]));
                }
            }
            // Each fits: they have come in one message of as many words at most.
            graph.source_count = mine.sources.len() as c_int;
            graph.destination_count = mine.destinations.len() as c_int;
            graph.is_weighted = is_weighted;
            object
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_one_after_the_other() {
        assert_eq!(places(&[1, 2, 0, 0, 3, 0]), Ok([vec![6, 0, 6], vec![0, 6, 6]]));
    }

    #[test]
    fn what_mpi_cannot_count_is_an_error() {
        assert_eq!(places(&[c_int::MAX, 0]), Err(ERR_INTERN));
        assert_eq!(places(&[1 << 29, 0, 1 << 29, 0, 1, 0]), Err(ERR_INTERN));
    }
}
