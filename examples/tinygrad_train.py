"""Trains a small network with tinygrad, unmodified from PyPI, on whatever AMD gpu it finds.

    gpreempt vgpu run --profile mi300x -- python3 examples/tinygrad_train.py

Nothing here knows about the virtual gpu. tinygrad talks to /dev/kfd itself, compiles its kernels to gfx942 machine code
with libLLVM and submits them through AQL queues. Exits with code 1 if the loss does not fall below the limit.

With --bits it prints every loss exactly and nothing that depends on time, so that two runs can be compared.
"""

import os
import sys
import time

os.environ.setdefault("DEV", "AMD:LLVM")

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit
from tinygrad.nn.optim import Adam

STEPS = 80
LOSS_LIMIT = 0.10


def spirals(count: int, turns: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals that no straight line separates, and which spiral each belongs to."""
    rng = np.random.default_rng(7)
    radius = np.sqrt(rng.random(count)) * 2
    label = rng.integers(0, 2, count)
    angle = radius * np.pi * turns + label * np.pi
    noise = rng.normal(0, 0.04, (count, 2))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + noise
    return points.astype(np.float32), label.astype(np.int32)


class Network:
    def __init__(self, hidden: int = 64):
        rng = np.random.default_rng(1)

        def weights(rows: int, columns: int) -> Tensor:
            return Tensor((rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))

        self.first, self.second, self.last = weights(2, hidden), weights(hidden, hidden), weights(hidden, 2)
        self.biases = [Tensor.zeros(hidden).contiguous(), Tensor.zeros(hidden).contiguous(), Tensor.zeros(2).contiguous()]

    def __call__(self, x: Tensor) -> Tensor:
        x = (x @ self.first + self.biases[0]).relu()
        x = (x @ self.second + self.biases[1]).relu()
        return x @ self.last + self.biases[2]

    def parameters(self) -> list[Tensor]:
        return [self.first, self.second, self.last, *self.biases]


def main() -> int:
    points, labels = spirals(512)
    x, y = Tensor(points), Tensor(labels)
    network = Network()
    parameters = network.parameters()
    optimiser = Adam(parameters, lr=0.02)

    @TinyJit
    def step() -> Tensor:
        optimiser.zero_grad()
        loss = network(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())

    bits = "--bits" in sys.argv[1:]
    print(f"device {Device.DEFAULT}")
    started = time.perf_counter()
    loss = float("nan")
    for number in range(1, STEPS + 1):
        with Context(TRAINING=1):
            loss = step().item()
        if bits:
            print(f"loss {number} {loss.hex()}", flush=True)
        elif number == 1 or number % 10 == 0:
            print(f"step {number:3d}  loss {loss:.4f}  {time.perf_counter() - started:6.2f} s", flush=True)
    correct = (network(x).argmax(axis=1) == y).mean().item()
    print(f"accuracy {correct:.3f}, loss {loss:.4f} (limit {LOSS_LIMIT})")
    return 0 if loss < LOSS_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
