#!/usr/bin/env python3
"""Runs the host side of the corpus: check.py OUTDIR, after `build.sh OUTDIR check`.

Each kernel runs on several seeds in the ordinary library and in the one that traps on undefined behaviour, each in a
process of its own; both must survive and agree, outputs must not stay as they were, and nothing outside may be written.
"""
import ctypes
import hashlib
import os
import sys
import tomllib

SEEDS = range(1, 6)
GUARD = b"\xa5" * 64


def width(shape):
    """Bytes of an element."""
    return int(shape["type"][1:]) // 8


def run(library, kernel, seed):
    """The kernel's output, or None if it wrote outside or nothing."""
    source, target = kernel["in"], kernel["out"]
    in_bytes = ctypes.create_string_buffer(source["count"] * width(source))
    fill = library.corpus_fill
    fill.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_long, ctypes.c_ulong]
    if fill(in_bytes, source["type"].encode(), source["fill"].encode(), source["count"], seed) != 0:
        sys.exit(f"{kernel['name']}: corpus_fill refused its input")
    size = target["count"] * width(target)
    start = bytes([target.get("fill", 0)]) * size
    out = ctypes.create_string_buffer(start + GUARD, size + len(GUARD))
    function = getattr(library, kernel["name"] + "_host")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    function(in_bytes, out, kernel["items"])
    result = out.raw
    if result[size:] != GUARD or result[:size] == start:
        return None
    return result[:size]


def apart(directory, name, kernel):
    """Hashes of the outputs of all seeds, from a process of its own; None if it died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        library = ctypes.CDLL(os.path.join(directory, name))
        for seed in SEEDS:
            result = run(library, kernel, seed)
            if result is None:
                os._exit(3)
            os.write(write, hashlib.sha256(result).digest())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        hashes = pipe.read()
    _, status = os.waitpid(child, 0)
    return hashes if status == 0 else None


def main():
    directory = sys.argv[1]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus.toml"), "rb") as file:
        kernels = tomllib.load(file)["kernel"]
    failed = 0
    for kernel in kernels:
        plain = apart(directory, "libcorpus.so", kernel)
        checked = apart(directory, "libcorpus-check.so", kernel)
        if plain is None or plain != checked:
            print(f"{kernel['name']}: plain {'died' if plain is None else 'ran'}, checked "
                  f"{'died' if checked is None else 'ran'}")
            failed += 1
        elif len({plain[at:at + 32] for at in range(0, len(plain), 32)}) < 2:
            print(f"{kernel['name']}: the output does not depend on the input")
            failed += 1
    print(f"{len(kernels)} kernels, {failed} failed")
    return failed > 0


sys.exit(main())
