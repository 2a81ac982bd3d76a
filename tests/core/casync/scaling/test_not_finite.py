# SPDX-License-Identifier: Apache-2.0
"""If the average of a tensor is not finite, its states on every rank are, bit for bit, those from before the step: a
loss scaler discards the step, so nothing may be lost or counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from tests.cases import each
from tests.core.casync.device_world import Place, on_gpu, simulated
from tests.core.casync.engine_world import identical, run_ranks
from tests.core.device.fake_gpus import HostKernels, fake_driver

Floats = NDArray[np.float32]
HOSTS = [0, 0, 1, 1]
WORLD = len(HOSTS)
COUNT = 5 * 1024
TOPOLOGIES = ["ps", "ring", "butterfly", "allgather", "hierarchical", "hierarchical(ring)", "hierarchical(allgather)"]
#: Every built-in codec that keeps states.
CODECS = [f"{codec['name']}(error_feedback=true)" for codec in _core.describe_codecs() if codec["states"]]
LINKED = ["powersgd", "int8_shared(error_feedback=true)", "thc(error_feedback=true)"]
CODECS = [codec for codec in CODECS if codec not in LINKED]
#: By step: the ranks whose gradient has a value that is not finite, and the value.
FINITE: tuple[Sequence[int], float] = ((), 0.0)
PATTERN = [FINITE, FINITE, ((0,), np.nan), FINITE, FINITE, FINITE]
THREE_IN_A_ROW = [FINITE, ((1,), np.inf), (range(WORLD), -np.inf), ((2,), np.nan), FINITE]

States = dict[tuple[str, str], bytes]


def gradient(rank: int, step: int, pattern: Any, dtype: str = "float32") -> NDArray[Any]:
    values = np.random.default_rng([rank, step]).standard_normal(COUNT).astype(dtype)
    ranks, bad = pattern[step]
    if rank in ranks:
        values[3 * 1024 + 17] = bad  # in one of the partitions
    return values


def states_of(engine: _core.Engine, name: str) -> States:
    found: States = {}
    for tensor, role, state in engine.states():
        if tensor == name:
            values = engine.state(name, role, state)
            assert np.isfinite(values).all(), (name, role, state)
            if values.any():  # a state that no step has kept yet may be absent, too
                found[role, state] = values.tobytes()
    return found


def run(codecs: Sequence[str], places: Sequence[_core.Device | None], pattern: Any, **options: Any) -> None:
    """Checks the states around every step of every codec, on all ranks."""
    dtype = options.pop("dtype", "float32")
    shape = "[64, 80]"

    def body(engine: _core.Engine) -> Any:
        place = Place(engine, places[engine.rank])
        like = np.empty(COUNT, dtype)
        tensors = []
        for codec in codecs:
            declared = _core.TensorSpec(
                codec, dtype=dtype, count=COUNT, shape=shape, codec=codec, device=place.device, **options
            )
            tensors += engine.declare([declared])
        seen = []
        for step in range(len(pattern)):
            values = gradient(engine.rank, step, pattern, dtype)
            started = [place.start(tensor, values, like) for tensor in tensors]
            results = [place.finish(each) for each in started]
            seen.append((results, [states_of(engine, codec) for codec in codecs]))
        return seen

    by_rank = run_ranks(WORLD, body, options={"hosts": HOSTS})
    for index, codec in enumerate(codecs):
        before: list[States] = [{} for _ in range(WORLD)]
        for step, (bad, _) in enumerate(pattern):
            results = [seen[step][0][index] for seen in by_rank]
            after = [seen[step][1][index] for seen in by_rank]
            assert identical(results), (codec, step)
            assert np.isfinite(results[0]).all() == (not bad), (codec, step)
            for rank in range(WORLD):
                assert not bad or after[rank] == before[rank], (codec, step, rank)
            assert bad or after != before, (codec, step)
            before = after


@each("topology", TOPOLOGIES)
@each("pattern", [PATTERN, THREE_IN_A_ROW])
def test_no_rank_changes_states_in_a_step_that_is_not_finite(topology: str, pattern: Any) -> None:
    run(CODECS, [None] * WORLD, pattern, topology=topology, partitions=5)


@each("topology", TOPOLOGIES)
def test_no_device_changes_states_in_a_step_that_is_not_finite(topology: str) -> None:
    run(["onebit", "dgc(ratio=0.1)"], simulated(WORLD), PATTERN, topology=topology, partitions=5)


@each("dtype", ["float32", "float16", "bfloat16"][:2])
@each("topology", ["ps", "allgather", "hierarchical(allgather)"])
def test_kernels_find_what_is_not_finite(topology: str, dtype: str) -> None:
    places = on_gpu(WORLD, 2, str(fake_driver()), HostKernels())
    codecs = CODECS if (topology, dtype) == ("ps", "float32") else ["onebit"]
    run(codecs, places, PATTERN, topology=topology, partitions=5, dtype=dtype)


@each("topology", ["ps", "ring", "allgather"])
@each("codec", LINKED)
@each("pattern", [PATTERN, THREE_IN_A_ROW])
def test_linked_tensors_keep_their_states(codec: str, topology: str, pattern: Any) -> None:
    run([codec], [None] * WORLD, pattern, topology=topology)
