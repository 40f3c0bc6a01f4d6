"""Trains as examples/jax_train.py does, over and over, until the standard input is closed.

Prints one JSON document per line, as the programs of `gpreempt load` do, with a hash of all losses and parameters after
every step. A training begins with the same parameters every time, so all have the same hashes.
"""

import hashlib
import json
import sys
import threading
import time

import jax_train
import numpy as np

# A step takes about 0.1 s on a virtual gpu, most of it in kernels.
HIDDEN = 128
POINTS = 2048


def say(line: str, **values) -> None:
    print(json.dumps({"line": line, **values}), flush=True)


def main() -> int:
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    # The first step follows when XLA has compiled it.
    say("ready", groups=0)
    steps = 0
    while True:
        digest = hashlib.sha256()
        for loss, parameters in jax_train.training(HIDDEN, POINTS):
            for array in [loss, *parameters]:
                digest.update(np.asarray(array).tobytes())
            say("step", step=steps, ended_ns=time.monotonic_ns(), checksum=digest.hexdigest())
            steps += 1
            if ended.is_set():
                say("trained", at_ns=time.monotonic_ns(), steps=steps)
                return 0


if __name__ == "__main__":
    sys.exit(main())
