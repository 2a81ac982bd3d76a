# SPDX-License-Identifier: Apache-2.0
"""Engines never hold more memory than the formulas of docs/algorithms.md, and come close to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

from hipress import _core
from tests.cases import each
from tests.core.casync.engine_world import gradients, run_ranks, spec

#: Elements of a partition. Pools need not round up this size.
PARTITION = 1 << 15
#: Pools round a size up to an eighth of a power of two, and an idle buffer can serve a smaller need.
ROUNDING = 1.25
#: Scratch memory in whole pages, for vectors of a few elements each.
PAGES = 8 * 4096
#: A formula may exceed the held memory by this factor at most; otherwise it would say little.
GENEROUS = 1.5
STEPS = 3
#: The greatest number of runs until one run comes near the bound.
RUNS = 8
CODECS = ["none", "fp16", "onebit", "tbq", "terngrad", "dgc(ratio=0.05)", "graddrop(ratio=0.05)", "int8", "int4"]
#: The number of states of a codec; each is as large as the values that it encodes.
STATES = {"onebit": 1, "tbq": 1, "dgc": 2, "graddrop": 1, "int4": 1}


@dataclass(frozen=True)
class Size:
    """The parameters of the formulas: K partitions; N ranks on H hosts, L on each; T compute threads; c encoded bytes
    per byte."""

    K: int
    H: int
    L: int = 1
    T: int = 1
    c: float = 1.0

    @property
    def N(self) -> int:  # noqa: N802 -- as on the page
        return self.H * self.L

    @property
    def hosts(self) -> list[int]:
        return [rank // self.L for rank in range(self.N)]


Formula = Callable[[Size], float]


@dataclass(frozen=True)
class Bound:
    """The bounds per rank and byte of gradient."""

    raw: Formula
    compressed: Formula
    early: Formula  # early messages of a step; c = 1 for raw values
    encodes: Formula = lambda s: 1.0  # the share of all partitions that a rank encodes
    sent: Formula = lambda s: s.c  # encoded payloads that have arrived, but whose sender has not yet learned it


BOUNDS = {
    "ps": Bound(
        raw=lambda s: (s.N - 1) / s.N,
        compressed=lambda s: 2 * s.c * (s.N - 1) / s.N + s.T / s.K,
        early=lambda s: s.c * (s.N - 1) / s.N,
    ),
    "ring": Bound(
        raw=lambda s: (s.N - 1) / s.N,
        compressed=lambda s: s.c + s.T / s.K,
        early=lambda s: s.c * (s.N - 1) / s.N,
    ),
    "butterfly": Bound(
        raw=lambda s: (s.N - 1) / s.N,
        compressed=lambda s: 2 * s.c * (s.N - 1) / s.N + s.T / s.K,
        early=lambda s: s.c * (s.N - 1) / s.N,
    ),
    "allgather": Bound(
        raw=lambda s: s.N - 1,
        compressed=lambda s: s.c * s.N,
        early=lambda s: s.c * (s.N - 1),
        sent=lambda s: 0.0,
    ),
    "hierarchical": Bound(
        raw=lambda s: (s.L - 1) / s.L + (s.H - 1) / s.N,
        compressed=lambda s: (1 + s.c) * (s.L - 1) / s.L + s.c * (s.H - 1) / s.N + s.T / s.K,
        early=lambda s: (s.L - 1) / s.L + s.c * (s.H - 1) / s.N,
        encodes=lambda s: 1 / s.L,
    ),
    "hierarchical(ring)": Bound(
        raw=lambda s: (s.L - 1) / s.L + (s.H - 1) / s.N,
        compressed=lambda s: (1 + s.c) * (s.L - 1) / s.L + s.c * (s.H - 1) / s.N + s.T / s.K,
        early=lambda s: (s.L - 1) / s.L + s.c * (s.H - 1) / s.N,
        encodes=lambda s: 1 / s.L,
    ),
    "hierarchical(allgather)": Bound(
        raw=lambda s: (s.L - 1) / s.L + (s.H - 1) / s.L,
        compressed=lambda s: (s.L - 1) / s.L + s.c * (s.H - 1) / s.L + s.T / s.K,
        early=lambda s: (s.L - 1) / s.L + s.c * (s.H - 1) / s.L,
        encodes=lambda s: 1 / s.L,
    ),
}
FLAT = [Size(K=2, H=2), Size(K=8, H=2), Size(K=4, H=4), Size(K=16, H=4), Size(K=12, H=4, T=3)]
HOSTS = [Size(K=4, H=2, L=2), Size(K=8, H=2, L=2), Size(K=12, H=3, L=2, T=2), Size(K=8, H=2, L=4)]
CASES = [(name, size) for name in BOUNDS for size in (HOSTS if name.startswith("hier") else FLAT)]


@each("threads", [1, 3])
@each(("codec", "per_partition"), [("dgc", 7.0), ("graddrop", 7.0), ("onebit", 0.0), ("terngrad", 0.0)])
def test_scratch(codec: str, per_partition: float, threads: int) -> None:
    """Equal values are the worst case for codecs that choose the largest values, because each value reaches the
    threshold."""
    values = np.ones(8 * PARTITION, np.float32)
    ranks = 2

    def body(engine: _core.Engine) -> int:
        before = engine.memory_stats()["scratch_bytes"]
        engine.allgather("nobody has begun", b"")
        (tensor,) = engine.declare([spec("w", values, codec=codec, partitions=8)])
        for _ in range(STEPS):
            result = values.copy()
            engine.wait(engine.submit(tensor, result, result))
        engine.allgather("all are done", b"")
        held = engine.memory_stats()["scratch_bytes"] - before
        engine.allgather("all have looked", b"")
        return held

    held = max(run_ranks(ranks, body, options={"compute_threads": threads})) / (ranks * threads)
    assert held <= per_partition * 4 * PARTITION + PAGES
    assert per_partition * 4 * PARTITION <= GENEROUS * held


def with_ratio(size: Size, codec: str) -> Size:
    ratio = 1.0 if codec == "none" else _core.create_codec(codec).max_encoded_bytes(PARTITION) / (4 * PARTITION)
    return replace(size, c=ratio)


#: Values of ranks and partitions; they are kept, because drawing them takes longer than synchronising them.
_kept = lru_cache(maxsize=1)(gradients)


def run(topology: str, size: Size, codec: str, late: int | None) -> list[_core.MemoryStats]:
    """Runs some steps. Before each step, rank `late` waits until all early messages have arrived."""
    values = _kept(size.N, size.K * PARTITION)
    early = BOUNDS[topology].early(size) * values[0].nbytes

    def body(engine: _core.Engine) -> _core.MemoryStats:
        tensor, ready = engine.agree(
            "all",
            [
                spec("w", values[0], codec=codec, topology=topology, partitions=size.K),
                spec("ready", values[0][:1]),
            ],
        )
        for _ in range(STEPS):
            # The last step must have ended on all ranks.
            word = np.zeros(1, np.float32)
            engine.wait(engine.submit(ready, word, word))
            if engine.rank == late:
                end = time.monotonic() + 20.0
                while engine.memory_stats()["unexpected_bytes"] < 0.9 * early:
                    assert time.monotonic() < end, f"{engine.memory_stats()}; {early} bytes must come"
                    time.sleep(0.002)
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
        return engine.memory_stats()

    options = {"hosts": size.hosts, "compute_threads": size.T}
    return run_ranks(size.N, body, options=options, read_neighbours=False)


@pytest.mark.parametrize(("topology", "size"), CASES, ids=str)
@each("codec", CODECS)
def test_what_engines_hold_is_what_the_page_says(topology: str, size: Size, codec: str) -> None:
    size = with_ratio(size, codec)
    bound = BOUNDS[topology]
    gradient = 4 * PARTITION * size.K
    staging = bound.raw(size) if codec == "none" else bound.compressed(size) + bound.sent(size)
    least = (bound.raw if codec == "none" else bound.compressed)(replace(size, T=1))
    together, one_late = [], []
    # Chance decides how much memory is in use at once. No run exceeds the bound, and one of several runs comes near it.
    for _ in range(RUNS):
        together += run(topology, size, codec, None)
        one_late += run(topology, size, codec, size.N - 1)
        held = max(stats["pool_peak_bytes_in_use"] for stats in together + one_late) / gradient
        assert held <= ROUNDING * staging
        if least <= GENEROUS * held:
            break
    assert least <= GENEROUS * held
    assert all(stats["pool_bytes_in_use"] == 0 for stats in together + one_late)

    early = bound.early(size) * gradient
    came = one_late[-1]["unexpected_peak_bytes"]
    assert 0.9 * early <= came <= early + 4
    assert all(stats["unexpected_bytes"] == 0 for stats in one_late)

    count = STATES.get(codec.split("(")[0], 0)
    states = max(stats["state_bytes"] for stats in together + one_late) / gradient
    assert states <= count * 2 * bound.encodes(size)
    assert count * 2 * bound.encodes(size) <= GENEROUS * states
