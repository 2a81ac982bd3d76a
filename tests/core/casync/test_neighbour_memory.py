# SPDX-License-Identifier: Apache-2.0
"""A host leader reads its neighbours' gradients in their memory; the results equal those of sent gradients."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload, PeerLost
from tests.core.casync.engine_world import LOSSY, gradients, identical, outcomes, run_ranks, spec

#: The host of each rank: three hosts, the first with three ranks.
_HOSTS = [0, 0, 0, 1, 1, 2]
_WORLD = len(_HOSTS)
#: Bytes of a reference.
_REFERENCE = 16


def _steps(
    values: list[NDArray[Any]], *, read_neighbours: bool, absent: frozenset[int] = frozenset(), **options: Any
) -> list[tuple[list[NDArray[Any]], int]]:
    """Runs two steps on every rank. Returns the results and the bytes sent, by rank."""

    def body(engine: _core.Engine) -> tuple[list[NDArray[Any]], int]:
        (tensor,) = engine.declare([spec("gradient", values[0], **options)])
        results = []
        for _ in range(2):
            output = np.zeros_like(values[engine.rank])
            given = None if engine.rank in absent else values[engine.rank].copy()
            engine.wait(engine.submit(tensor, given, output))
            results.append(output)
        return results, engine.counters()["bytes_sent"]

    return run_ranks(_WORLD, body, options={"hosts": _HOSTS}, read_neighbours=read_neighbours)


@pytest.mark.parametrize("codec", ["none", "fp16", *LOSSY])
@pytest.mark.parametrize("topology", ["hierarchical", "hierarchical(ring)", "hierarchical(allgather)"])
def test_reading_gives_the_bits_of_sending(codec: str, topology: str) -> None:
    values = list(gradients(_WORLD, 300_001))
    options: dict[str, Any] = {"codec": codec, "topology": topology, "partitions": 5, "op": "average"}
    read = _steps(values, read_neighbours=True, **options)
    sent = _steps(values, read_neighbours=False, **options)
    for step in range(2):
        results = [rank[0][step] for rank in read + sent]
        assert identical(results)
    if codec == "none":
        np.testing.assert_allclose(read[0][0][0], np.mean(values, axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_other_types_and_factors(dtype: str, codec: str) -> None:
    values = [gradient.astype(dtype) for gradient in gradients(_WORLD, 100_003)]
    options = {"codec": codec, "topology": "hierarchical", "prescale": 0.25, "postscale": 3.0}
    read = _steps(values, read_neighbours=True, **options)
    assert identical([rank[0][1] for rank in read + _steps(values, read_neighbours=False, **options)])


@pytest.mark.parametrize("absent", [frozenset({0}), frozenset({1, 2}), frozenset({3, 4}), frozenset(range(_WORLD))])
def test_ranks_without_values(absent: frozenset[int]) -> None:
    values = list(gradients(_WORLD, 50_000))
    options = {"codec": "onebit", "topology": "hierarchical", "op": "sum"}
    read = _steps(values, read_neighbours=True, absent=absent, **options)
    assert identical([rank[0][1] for rank in read + _steps(values, read_neighbours=False, absent=absent, **options)])


def test_values_that_are_not_finite() -> None:
    values = list(gradients(_WORLD, 50_000))
    values[2][777] = np.nan
    results = _steps(values, read_neighbours=True, codec="onebit", topology="hierarchical")
    assert all(not np.isfinite(steps[0]).all() for steps, _ in results)


def test_only_where_the_values_are_is_sent() -> None:
    """The only partition has a rank of the first host as its leader there; the two other ranks send 16 bytes instead of
    it."""
    values = list(gradients(_WORLD, 100_000))
    options = {"codec": "none", "topology": "hierarchical", "partitions": 1}
    read = [sent for _, sent in _steps(values, read_neighbours=True, **options)]
    sent = [sent for _, sent in _steps(values, read_neighbours=False, **options)]
    saved = [before - after for before, after in zip(sent, read, strict=True)]
    per_step = values[0].nbytes - _REFERENCE
    assert sorted(saved) == [0, 0, 0, 2 * per_step, 2 * per_step, 2 * per_step]


def test_small_tensors_are_sent() -> None:
    values = list(gradients(_WORLD, 1000))
    options = {"codec": "none", "topology": "hierarchical"}
    read = [sent for _, sent in _steps(values, read_neighbours=True, **options)]
    assert read == [sent for _, sent in _steps(values, read_neighbours=False, **options)]


def _redirected(payload: bytes) -> bytes:
    process, _ = struct.unpack("<QQ", payload)
    return struct.pack("<QQ", process, 8)  # no memory is mapped at this address


def test_memory_that_is_not_there_is_a_lost_neighbour() -> None:
    def intercept(_source: int, _destination: int, payload: bytes) -> bool | bytes:
        return _redirected(payload) if len(payload) == _REFERENCE else True

    values = gradients(2, 100_000)

    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("weight", values[0], topology="hierarchical", partitions=1)])
        output = np.zeros_like(values[0])
        engine.wait(engine.submit(tensor, values[engine.rank], output))

    ends = outcomes(2, body, options={"hosts": [0, 0]}, intercept=intercept)
    for end in ends:
        assert isinstance(end, PeerLost)
        assert "tensor 'weight'" in str(end)
        assert "cannot be read" in str(end)
    assert any(f"from rank {rank}" in str(ends[0]) for rank in range(2))


def test_memory_of_another_process_is_never_read() -> None:
    def intercept(_source: int, _destination: int, payload: bytes) -> bool | bytes:
        if len(payload) != _REFERENCE:
            return True
        process, address = struct.unpack("<QQ", payload)
        return struct.pack("<QQ", process + 1, address)

    values = gradients(2, 100_000)

    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("weight", values[0], topology="hierarchical", partitions=1)])
        engine.wait(engine.submit(tensor, values[engine.rank], np.zeros_like(values[0])))

    for end in outcomes(2, body, options={"hosts": [0, 0]}, intercept=intercept):
        assert isinstance(end, CorruptPayload)
        assert "it refers to the memory of process" in str(end)
        assert "tensor 'weight'" in str(end)
        assert "from rank" in str(end)
