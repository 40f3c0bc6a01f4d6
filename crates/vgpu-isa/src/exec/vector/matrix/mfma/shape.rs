//! Which element of a matrix is where.
//!
//! Source: the chapter "Matrix Arithmetic Instructions" of the MI300 manual and AMD's matrix instruction calculator.
//!
//! Inputs: the lanes are split into groups of M (or N) times the number of blocks. Lane `x` of group `g` holds, for
//! block `x / M` and row (column, for B) `x % M`, the elements `g * depth .. (g + 1) * depth` along k, where `depth` is
//! K divided by the number of groups, packed into consecutive registers from the lowest bit up.
//!
//! Outputs: a tile is one register (two for double precision). Its lanes are parts of N lanes, each of which holds one
//! row of one block.

use crate::wave::LANES;

/// Number of rows, inner elements and blocks of a matrix instruction; all have as many columns as rows.
pub(super) trait Shape: 'static {
    /// Rows of A, columns of B.
    const M: usize;
    /// Columns of A, rows of B.
    const K: usize;
    /// Independent products.
    const BLOCKS: usize;
    /// Elements are 64 bits wide: another order of rows.
    const DOUBLE: bool;

    /// Rows in a tile.
    const PARTS: usize = LANES / Self::M;
    /// Lanes of the inputs that hold all rows of all blocks once.
    const GROUP: usize = Self::M * Self::BLOCKS;
    /// Elements along k in each lane.
    const DEPTH: usize = Self::K * Self::GROUP / LANES;
    /// Tiles of the result.
    const TILES: usize = Self::M * Self::GROUP / LANES;

    /// Block and row in the part of a tile.
    #[inline(always)]
    fn part(tile: usize, part: usize) -> (usize, usize) {
        match (Self::M, Self::DOUBLE) {
            (4, false) => (part, tile),
            (4, true) => (part % Self::BLOCKS, part / Self::BLOCKS),
            (_, true) => (0, tile * Self::PARTS + part),
            (_, false) => {
                let tiles = Self::M * Self::M / LANES;
                let (block, tile) = (tile / tiles, tile % tiles);
                (block, tile / 4 * 4 * Self::PARTS + part * 4 + tile % 4)
            }
        }
    }
}

/// A shape with 32-bit results.
pub(super) struct Single<const M: usize, const K: usize, const BLOCKS: usize>;

/// A shape with 64-bit results.
pub(super) struct Double<const M: usize, const K: usize, const BLOCKS: usize>;

impl<const M: usize, const K: usize, const BLOCKS: usize> Shape for Single<M, K, BLOCKS> {
    const M: usize = M;
    const K: usize = K;
    const BLOCKS: usize = BLOCKS;
    const DOUBLE: bool = false;
}

impl<const M: usize, const K: usize, const BLOCKS: usize> Shape for Double<M, K, BLOCKS> {
    const M: usize = M;
    const K: usize = K;
    const BLOCKS: usize = BLOCKS;
    const DOUBLE: bool = true;
}
