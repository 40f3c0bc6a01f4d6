"""tinygrad against numpy: one check for each kind of work, on whatever gpu tinygrad finds. Prints one line per check."""

import os
import sys
import time

os.environ.setdefault("DEV", "AMD:LLVM")

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

rng = np.random.default_rng(3)


def data(*shape, scale=1.0, dtype=np.float32):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def close(got, want, tolerance=2e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    error = np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)) / (1 + np.abs(want.astype(np.float64))))
    assert error <= tolerance, f"error {error} above {tolerance}"


def equal(got, want):
    assert np.array_equal(np.asarray(got), np.asarray(want)), "values differ"


def elementwise():
    a, b = data(257, 33), data(257, 33)
    x, y = Tensor(a), Tensor(b)
    equal((x + y).numpy(), a + b)
    close((x * y - x).numpy(), a * b - a)
    close((x / y).numpy(), a / b)
    close(x.exp().numpy(), np.exp(a))
    close(x.abs().sqrt().log().numpy(), np.log(np.sqrt(np.abs(a))))
    close(x.sin().numpy(), np.sin(a))
    close(x.sigmoid().numpy(), 1 / (1 + np.exp(-a)))
    close(x.tanh().numpy(), np.tanh(a))
    equal((x > y).where(x, y).numpy(), np.where(a > b, a, b))
    equal(x.relu().numpy(), np.maximum(a, 0))


def integers():
    a = rng.integers(-1000, 1000, 4000).astype(np.int32)
    b = rng.integers(1, 99, 4000).astype(np.int32)
    x, y = Tensor(a), Tensor(b)
    equal((x + y * 3).numpy(), a + b * 3)
    equal((x // y).numpy(), a // b)
    equal((x % y).numpy(), a % b)
    equal(((x << 3) ^ y).numpy(), (a << 3) ^ b)
    wide = rng.integers(-(2**40), 2**40, 500)
    equal((Tensor(wide) * 7 - 5).numpy(), wide * 7 - 5)
    small = rng.integers(0, 255, 999).astype(np.uint8)
    equal((Tensor(small) + 1).numpy(), small + np.uint8(1))


def precisions():
    a = data(700)
    equal(Tensor(a).half().realize().float().numpy(), a.astype(np.float16).astype(np.float32))
    close((Tensor(a).half() * 2 + 1).float().numpy(), (a.astype(np.float16) * 2 + 1).astype(np.float32), 2e-3)
    close(Tensor(a.astype(np.float64)).exp().numpy(), np.exp(a.astype(np.float64)), 1e-6)
    rounded = Tensor(a).cast(dtypes.bfloat16).float().numpy()
    close(rounded, a, 2**-8)
    equal(Tensor(a * 50).cast(dtypes.int32).numpy(), (a * 50).astype(np.int32))


def reductions():
    a = data(61, 513)
    x = Tensor(a)
    close(x.sum().numpy(), a.sum(dtype=np.float64), 1e-4)
    close(x.sum(axis=0).numpy(), a.sum(axis=0), 1e-4)
    close(x.mean(axis=1).numpy(), a.mean(axis=1), 1e-4)
    equal(x.max(axis=1).numpy(), a.max(axis=1))
    equal(x.min().numpy(), a.min())
    close(x.std(axis=1).numpy(), a.std(axis=1, ddof=1), 1e-4)
    close(x.cumsum(axis=1).numpy(), a.cumsum(axis=1), 1e-3)


def matmul():
    for m, k, n in [(64, 64, 64), (33, 70, 17), (128, 256, 96)]:
        a, b = data(m, k), data(k, n)
        close((Tensor(a) @ Tensor(b)).numpy(), a @ b, 1e-4)
    a, b = data(64, 64, dtype=np.float16), data(64, 64, dtype=np.float16)
    close((Tensor(a) @ Tensor(b)).float().numpy(), a.astype(np.float32) @ b.astype(np.float32), 2e-2)


def softmax():
    a = data(40, 300, scale=5)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    close(Tensor(a).softmax().numpy(), e / e.sum(axis=1, keepdims=True))
    close(Tensor(a).log_softmax().numpy(), a - a.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True)), 1e-4)


def layernorm():
    a = data(32, 128, scale=3)
    want = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    close(Tensor(a).layernorm().numpy(), want, 1e-4)


def convolution():
    a, w = data(2, 3, 16, 16), data(8, 3, 3, 3)
    want = np.zeros((2, 8, 14, 14), np.float64)
    for i in range(3):
        for j in range(3):
            want += np.einsum("bchw,oc->bohw", a[:, :, i : i + 14, j : j + 14].astype(np.float64), w[:, :, i, j])
    close(Tensor(a).conv2d(Tensor(w)).numpy(), want, 1e-4)
    pooled = a.reshape(2, 3, 8, 2, 8, 2).max(axis=(3, 5))
    equal(Tensor(a).max_pool2d().numpy(), pooled)


def sorting():
    a = data(5, 200)
    values, order = Tensor(a).sort(dim=1)
    equal(values.numpy(), np.sort(a, axis=1))
    equal(np.take_along_axis(a, order.numpy().astype(np.int64), axis=1), np.sort(a, axis=1))
    equal(Tensor(a).argmax(axis=1).numpy(), a.argmax(axis=1))
    top, _ = Tensor(a).topk(7, dim=1)
    equal(top.numpy(), -np.sort(-a, axis=1)[:, :7])


def movement():
    a = data(12, 34, 5)
    x = Tensor(a)
    equal(x.permute(2, 0, 1).contiguous().numpy(), a.transpose(2, 0, 1))
    equal(x[3:9, ::2, -1].numpy(), a[3:9, ::2, -1])
    equal(Tensor.cat(x, x, dim=1).numpy(), np.concatenate([a, a], axis=1))
    equal(x.pad(((1, 2), (0, 0), (3, 0))).numpy(), np.pad(a, ((1, 2), (0, 0), (3, 0))))
    index = rng.integers(0, 12, 50)
    equal(x[Tensor(index)].numpy(), a[index])


def train(model, x, y, steps, rate, limit):
    optimiser = nn.optim.Adam(nn.state.get_parameters(model), lr=rate)

    @TinyJit
    def step():
        optimiser.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())

    with Context(TRAINING=1):
        losses = [step().item() for _ in range(steps)]
    assert losses[-1] < limit < losses[0], f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, limit {limit}"


class Mlp:
    def __init__(self):
        self.a, self.b = nn.Linear(20, 32), nn.Linear(32, 3)

    def __call__(self, x):
        return self.b(self.a(x).relu())


class ConvNet:
    def __init__(self):
        self.a, self.b, self.c = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(8 * 4 * 4, 4)

    def __call__(self, x):
        return self.c(self.b(self.a(x).relu()).relu().max_pool2d().flatten(1))


def train_mlp():
    Tensor.manual_seed(1)
    a = data(120, 20)
    train(Mlp(), Tensor(a), Tensor((a[:, :3]).argmax(axis=1).astype(np.int32)), 30, 0.02, 0.3)


def train_conv():
    Tensor.manual_seed(2)
    a = data(48, 1, 12, 12, scale=0.3)
    labels = rng.integers(0, 4, 48)
    for image, label in zip(a, labels):
        image[0, (label // 2) * 6 : (label // 2) * 6 + 6, (label % 2) * 6 : (label % 2) * 6 + 6] += 1
    train(ConvNet(), Tensor(a), Tensor(labels.astype(np.int32)), 25, 0.01, 0.4)


CHECKS = [
    elementwise, integers, precisions, reductions, matmul, softmax, layernorm, convolution, sorting, movement,
    train_mlp, train_conv,
]


def main():
    wanted = sys.argv[1:]
    failed = 0
    print(f"device {Device.DEFAULT}")
    for check in CHECKS:
        if wanted and check.__name__ not in wanted:
            continue
        started = time.perf_counter()
        try:
            check()
            result = "passed"
        except AssertionError as error:
            result, failed = f"FAILED: {error}", failed + 1
        print(f"{check.__name__:12} {result}  {time.perf_counter() - started:.2f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
