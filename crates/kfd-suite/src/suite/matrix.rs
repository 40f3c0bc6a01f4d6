//! Kernels on matrices, with local memory and with the matrix cores.

use kfd_runtime::Launch;

use super::job::{Argument, Inputs, Job};
use super::object;
use kfd_runtime::Placement::{Gtt, Vram};

/// Side of the kernels' tiles.
const TILE: u16 = 16;

/// `a` (rows x depth) times `b` (depth x columns), summed in the order of the depth.
fn product(a: &[f32], b: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f32> {
    let element =
        |row: usize, column: usize| (0..depth).fold(0.0, |sum, k| sum + a[row * depth + k] * b[k * columns + column]);
    (0..rows * columns).map(|index| element(index / columns, index % columns)).collect()
}

pub(super) fn matmul(seed: u64) -> Job {
    const SIDE: usize = 64;
    let mut inputs = Inputs::new(seed, "matmul");
    let a = inputs.many(SIDE * SIDE, Inputs::unit);
    let b = inputs.many(SIDE * SIDE, Inputs::unit);
    let expected = product(&a, &b, SIDE, SIDE, SIDE);
    Job {
        object: object!("matmul"),
        kernel: "matmul",
        launch: Launch { grid: [SIDE as u32, SIDE as u32, 1], group: [TILE, TILE, 1] },
        arguments: vec![
            Argument::input(Vram, &a),
            Argument::input(Vram, &b),
            Argument::output(Vram, &expected),
            Argument::U32(SIDE as u32),
        ],
    }
}

pub(super) fn transpose(seed: u64) -> Job {
    const WIDTH: usize = 75;
    const HEIGHT: usize = 50;
    let values = Inputs::new(seed, "transpose").many(WIDTH * HEIGHT, Inputs::word);
    let turned: Vec<u32> = (0..WIDTH * HEIGHT).map(|index| values[index % HEIGHT * WIDTH + index / HEIGHT]).collect();
    let whole = |size: usize| (size as u32).next_multiple_of(TILE.into());
    Job {
        object: object!("transpose"),
        kernel: "transpose",
        launch: Launch { grid: [whole(WIDTH), whole(HEIGHT), 1], group: [TILE, TILE, 1] },
        arguments: vec![
            Argument::input(Gtt, &values),
            Argument::output(Gtt, &turned),
            Argument::U32(WIDTH as u32),
            Argument::U32(HEIGHT as u32),
        ],
    }
}

/// Side of the blocks that the matrix cores multiply here.
const BLOCK: usize = 16;

pub(super) fn mfma_f32(seed: u64) -> Job {
    const DEPTH: usize = 32;
    let mut inputs = Inputs::new(seed, "mfma_f32");
    let a = inputs.many(BLOCK * DEPTH, Inputs::unit);
    let b = inputs.many(DEPTH * BLOCK, Inputs::unit);
    let expected = product(&a, &b, BLOCK, DEPTH, BLOCK);
    Job {
        object: object!("mfma_f32"),
        kernel: "mfma_f32",
        launch: Launch::linear(1, 64),
        arguments: vec![
            Argument::input(Gtt, &a),
            Argument::input(Gtt, &b),
            // The matrix cores choose the order of additions and where they round; the terms are below 1.
            Argument::near(Gtt, expected, 1e-5, 1.0),
            Argument::U32(DEPTH as u32),
        ],
    }
}

pub(super) fn mfma_i8(seed: u64) -> Job {
    const DEPTH: usize = 96;
    let mut inputs = Inputs::new(seed, "mfma_i8");
    let mut byte = || inputs.many(BLOCK * DEPTH, |inputs| inputs.word() as i8);
    let (a, b) = (byte(), byte());
    let element = |row: usize, column: usize| {
        let left = &a[row * DEPTH..][..DEPTH];
        let right = &b[column * DEPTH..][..DEPTH];
        left.iter().zip(right).map(|(&left, &right)| i32::from(left) * i32::from(right)).sum::<i32>()
    };
    let expected: Vec<i32> = (0..BLOCK * BLOCK).map(|index| element(index / BLOCK, index % BLOCK)).collect();
    Job {
        object: object!("mfma_i8"),
        kernel: "mfma_i8",
        launch: Launch::linear(1, 64),
        arguments: vec![
            Argument::input(Gtt, &a),
            Argument::input(Gtt, &b),
            Argument::output(Gtt, &expected),
            Argument::U32(DEPTH as u32),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_known_matrices() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        assert_eq!(product(&a, &b, 2, 3, 2), [58.0, 64.0, 139.0, 154.0]);
    }
}
