//! Cartesian topologies (MPI 4.1, 8.5): coordinates are numbered with the last dimension first.

use std::ffi::c_int;

use openmpi_internals::layout::mpi::MPI_PROC_NULL;

/// A grid of the members of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Members along each dimension.
    pub dims: Vec<c_int>,
    /// Whether each dimension is a ring.
    pub periods: Vec<bool>,
}

impl Grid {
    /// `None` if a dimension is negative or the grid has more members than an `int` can count.
    pub fn new(dims: &[c_int], periods: &[c_int]) -> Option<Self> {
        let size = dims.iter().try_fold(1 as c_int, |size, dim| size.checked_mul(*dim));
        let fits = dims.iter().all(|dim| *dim >= 0) && size.is_some();
        fits.then(|| Self { dims: dims.to_vec(), periods: periods.iter().map(|period| *period != 0).collect() })
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.dims.iter().map(|dim| *dim as usize).product()
    }

    /// The coordinates of a member.
    pub fn coordinates(&self, rank: usize) -> Vec<c_int> {
        let (mut rest, mut coordinates) = (rank, vec![0; self.dims.len()]);
        for (coordinate, dim) in coordinates.iter_mut().zip(&self.dims).rev() {
            *coordinate = (rest % *dim as usize) as c_int;
            rest /= *dim as usize;
        }
        coordinates
    }

    /// The member at coordinates, which may lie outside in a dimension that is a ring.
    pub fn rank(&self, coordinates: &[c_int]) -> Option<usize> {
        let mut rank = 0;
        for ((coordinate, dim), is_ring) in coordinates.iter().zip(&self.dims).zip(&self.periods) {
            let inside = if *is_ring { coordinate.rem_euclid(*dim) } else { *coordinate };
            if !(0..*dim).contains(&inside) {
                return None;
            }
            rank = rank * *dim as usize + inside as usize;
        }
        Some(rank)
    }

    /// The member that sends to `rank` in a shift along a dimension, and the one that receives from it.
    pub fn shift(&self, rank: usize, dimension: usize, distance: c_int) -> (c_int, c_int) {
        let neighbour = |distance: c_int| {
            let mut coordinates = self.coordinates(rank);
            coordinates[dimension] = coordinates[dimension].saturating_add(distance);
            self.rank(&coordinates).map_or(MPI_PROC_NULL, |rank| rank as c_int)
        };
        (neighbour(distance.saturating_neg()), neighbour(distance))
    }

    /// The grid of the dimensions that remain, and for a member the number of its part of the grid and its place there.
    pub fn sub(&self, rank: usize, remain: &[bool]) -> (Self, usize, usize) {
        let coordinates = self.coordinates(rank);
        let (mut part, mut place) = (0, 0);
        let (mut dims, mut periods) = (Vec::new(), Vec::new());
        for (dimension, remains) in remain.iter().enumerate() {
            let (dim, coordinate) = (self.dims[dimension], coordinates[dimension] as usize);
            if *remains {
                place = place * dim as usize + coordinate;
                dims.push(dim);
                periods.push(self.periods[dimension]);
            } else {
                part = part * dim as usize + coordinate;
            }
        }
        (Self { dims, periods }, part, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new(&[2, 3], &[0, 1]).unwrap()
    }

    #[test]
    fn coordinates_and_ranks_are_inverse() {
        let grid = grid();
        assert_eq!(
            (0..6).map(|rank| grid.rank(&grid.coordinates(rank)).unwrap()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
        assert_eq!(grid.coordinates(4), [1, 1]);
        assert_eq!(grid.rank(&[1, -1]), Some(5));
        assert_eq!(grid.rank(&[2, 0]), None);
    }

    #[test]
    fn a_shift_ends_at_the_border_or_goes_around() {
        assert_eq!(grid().shift(0, 0, 1), (MPI_PROC_NULL, 3));
        assert_eq!(grid().shift(0, 1, 1), (2, 1));
    }

    #[test]
    fn a_part_of_the_grid_has_the_dimensions_that_remain() {
        let (sub, part, place) = grid().sub(5, &[false, true]);
        assert_eq!((sub, part, place), (Grid { dims: vec![3], periods: vec![true] }, 1, 2));
    }

    #[test]
    fn a_grid_that_nobody_can_count_is_refused() {
        assert_eq!(Grid::new(&[1 << 20, 1 << 20], &[0, 0]), None);
        assert_eq!(Grid::new(&[-1], &[0]), None);
    }
}
