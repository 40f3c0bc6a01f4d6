"""Trains a small network with JAX, unmodified from PyPI, on whatever AMD gpu it finds.

    cargo xtask setup --jax
    gpreempt vgpu run -- target/jax/run python3 examples/jax_train.py

Nothing here knows about the virtual gpu. XLA compiles the training step to gfx942 machine code and launches it through
HIP, beside kernels of AMD's libraries. Exits with code 1 if the loss does not fall below the limit.

With --bits it prints every loss exactly, a hash of all losses and parameters, and nothing that depends on time, so that
two runs can be compared.
"""

import hashlib
import sys
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 80
HIDDEN = 64
POINTS = 512
LOSS_LIMIT = 0.10
LEARNING_RATE = 0.02


def spirals(count: int, turns: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals that no straight line separates, and which spiral each belongs to."""
    rng = np.random.default_rng(7)
    radius = np.sqrt(rng.random(count)) * 2
    label = rng.integers(0, 2, count)
    angle = radius * np.pi * turns + label * np.pi
    noise = rng.normal(0, 0.04, (count, 2))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + noise
    return points.astype(np.float32), label.astype(np.int32)


def network(hidden: int) -> list[jax.Array]:
    """Parameters of a network with two hidden layers: a matrix and a vector for each layer."""
    sizes = [(2, hidden), (hidden, hidden), (hidden, 2)]
    keys = jax.random.split(jax.random.key(1), len(sizes))
    parameters = []
    for key, (rows, columns) in zip(keys, sizes):
        parameters += [jax.random.normal(key, (rows, columns)) / np.sqrt(rows), jnp.zeros(columns)]
    return parameters


def scores(parameters: list[jax.Array], x: jax.Array) -> jax.Array:
    first, b1, second, b2, last, b3 = parameters
    x = jax.nn.relu(x @ first + b1)
    x = jax.nn.relu(x @ second + b2)
    return x @ last + b3


def loss_of(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(parameters, x)), y[:, None], axis=1).mean()


@jax.jit
def step(state, number, x, y):
    """One step of Adam: parameters and their two moments, and the loss before the step."""
    parameters, means, squares = state
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)

    def moved(p, m, s):
        return p - LEARNING_RATE * (m / (1 - 0.9**number)) / (jnp.sqrt(s / (1 - 0.999**number)) + 1e-8)

    return (jax.tree.map(moved, parameters, means, squares), means, squares), loss


def training(hidden: int = HIDDEN, points: int = POINTS) -> Iterator[tuple[np.float32, list[jax.Array]]]:
    """Trains from the beginning; each step yields the loss and the parameters."""
    x, y = (jnp.asarray(array) for array in spirals(points))
    parameters = network(hidden)
    zeros = [jnp.zeros_like(p) for p in parameters]
    state = (parameters, zeros, zeros)
    for number in range(1, STEPS + 1):
        state, loss = step(state, jnp.float32(number), x, y)
        yield np.float32(loss), state[0]


def main() -> int:
    bits = "--bits" in sys.argv[1:]
    print(f"device {jax.devices()[0].device_kind}", flush=True)
    digest = hashlib.sha256()
    started = time.perf_counter()
    for number, (loss, parameters) in enumerate(training(), start=1):
        digest.update(loss.tobytes())
        if bits:
            print(f"loss {number} {float(loss).hex()}", flush=True)
        elif number == 1 or number % 10 == 0:
            print(f"step {number:3d}  loss {loss:.4f}  {time.perf_counter() - started:6.2f} s", flush=True)
    for array in parameters:
        digest.update(np.asarray(array).tobytes())
    x, y = spirals(POINTS)
    correct = float((scores(parameters, jnp.asarray(x)).argmax(axis=1) == y).mean())
    print(f"hash {digest.hexdigest()}")
    print(f"accuracy {correct:.3f}, loss {loss:.4f} (limit {LOSS_LIMIT})")
    return 0 if loss < LOSS_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
