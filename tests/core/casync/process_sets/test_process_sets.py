# SPDX-License-Identifier: Apache-2.0
"""Operations among some ranks of a job: the bits of a job of these ranks alone, and no wait for the others."""

from __future__ import annotations

import random
import re
import threading
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import HipressError, InvalidArgument, Mismatch, PeerLost
from tests.core.casync.engine_world import outcomes, run_ranks, spec

pytestmark = pytest.mark.timeout(120)

#: Of five ranks; the others do something else.
MEMBERS = [0, 2, 4]
CODECS = [each["name"] for encode in (True, False) for each in _core.describe_codecs(encode)]
TOPOLOGIES = ["ps", "ring", "butterfly", "allgather", "hierarchical(ring)"]
COUNT = 5000


def _values(position: int, step: int, count: int = COUNT) -> NDArray[np.float32]:
    generator = np.random.default_rng([position, step])
    return generator.standard_normal(count).astype(np.float32)


def _averages(engine: _core.Engine, position: int, among: list[int], how: dict[str, str]) -> list[bytes]:
    values = np.zeros((50, COUNT // 50), np.float32)
    handle = engine.agree("list", [spec("w", values, lasting_name="w", among=among, **how)])[0]
    results = []
    for step in range(3):
        values[:] = _values(position, step).reshape(values.shape)
        engine.wait(engine.submit(handle, values, values))
        results.append(values.tobytes())
    return results


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_set_has_the_bits_of_a_job_of_its_ranks(topology: str) -> None:
    assert len(CODECS) > 20
    compared = []
    for codec in CODECS:
        how = {"codec": codec, "topology": topology}
        # Rank 4 is on another host: the hierarchical topology has two levels in both jobs.
        alone = outcomes(
            3, lambda engine, how=how: _averages(engine, engine.rank, [], how), options={"hosts": [0, 0, 1]}
        )
        if isinstance(alone[0], HipressError):
            assert "sends sums of some ranks" in str(alone[0]), codec  # the codec does not take the topology
            continue
        compared.append(codec)

        def member(engine: _core.Engine, how: dict[str, str] = how) -> list[bytes] | None:
            if engine.rank not in MEMBERS:
                return None
            return _averages(engine, MEMBERS.index(engine.rank), MEMBERS, how)

        within = run_ranks(5, member, options={"hosts": [0, 1, 0, 2, 1]})
        assert [within[rank] for rank in MEMBERS] == alone, codec
        assert alone[0] == alone[1] == alone[2], codec
    assert len(compared) > 20


def test_bytes_travel_among_the_ranks_of_the_set_only() -> None:
    def member(engine: _core.Engine) -> int:
        if engine.rank in MEMBERS:
            _averages(engine, MEMBERS.index(engine.rank), MEMBERS, {"codec": "int8", "topology": "ps"})
        return engine.counters()["bytes_sent"]

    sent = run_ranks(5, member)
    assert all(sent[rank] > 0 for rank in MEMBERS)
    assert sent[1] == sent[3] == 0


def _collectives(engine: _core.Engine, among: list[int]) -> dict[str, list[float]]:
    position, ranks = among.index(engine.rank), len(among)
    own = np.arange(6, dtype=np.float32) + 10 * engine.rank
    results: dict[str, list[float]] = {}
    for kind, options in (
        ("broadcast", {"root": among[-1]}),
        ("reducescatter", {"op": "sum", "rows": 6}),
    ):
        rows = 6 // ranks + (position < 6 % ranks) if kind == "reducescatter" else 6
        output = np.zeros(rows, np.float32)
        handle = engine.announce(spec(kind, own, collective=kind, transient=True, among=among, **options))
        engine.wait(engine.submit(handle, own, output))
        results[kind] = output.tolist()
    for kind, rows_of in (("allgather", [6]), ("alltoall", [6 // ranks] * ranks)):
        moving = _core.TensorSpec(kind, collective=kind, dtype="float32", count=0, shape="[*]", among=among)
        moved, received = _core.move_blocks(engine, moving, own, 1, rows_of).wait()
        results[kind] = moved.view(np.float32).tolist()
        assert len(received) == ranks
    return results


@pytest.mark.parametrize("among", [[1, 3], [0, 1, 3], [2]])
def test_every_collective_among_some_ranks(among: list[int]) -> None:
    world = run_ranks(4, lambda engine: _collectives(engine, among) if engine.rank in among else None)
    inputs = [np.arange(6, dtype=np.float32) + 10 * rank for rank in among]
    total = sum(inputs)
    share = 6 // len(among)
    for position, rank in enumerate(among):
        result = world[rank]
        assert result is not None
        assert result["broadcast"] == inputs[-1].tolist()
        assert result["allgather"] == np.concatenate(inputs).tolist()
        assert result["reducescatter"] == np.array_split(total, len(among))[position].tolist()
        parts = [each[position * share : (position + 1) * share] for each in inputs]
        assert result["alltoall"] == np.concatenate(parts).tolist()


def test_a_set_does_not_wait_for_the_others() -> None:
    done = threading.Event()

    def body(engine: _core.Engine) -> bool:
        if engine.rank == 2:  # it comes when the set has ended
            return done.wait(20.0)
        values = np.ones(1000, np.float32)
        for name in ("a", "b"):
            handle = engine.announce(spec(name, values, transient=True, among=[0, 1]))
            engine.wait(engine.submit(handle, values, values))
        engine.allgather("key", b"", among=[0, 1])
        if engine.rank == 0:
            done.set()
        return True

    assert run_ranks(3, body) == [True] * 3


def test_overlapping_sets_in_random_orders_do_not_block() -> None:
    sets = [[0, 1], [1, 2], [0, 2, 3], [0, 1, 2, 3], [3]]
    turns = 200

    def body(engine: _core.Engine) -> int:
        mine = [index for index, among in enumerate(sets) if engine.rank in among]
        order = [(index, turn) for index in mine for turn in range(turns)]
        random.Random(engine.rank).shuffle(order)  # another order on each rank
        waiting = []
        for index, turn in order:
            values = np.full(8, engine.rank + 1.0, np.float32)
            name = f"set {index}, {turn}"
            handle = engine.announce(spec(name, values, op="sum", transient=True, among=sets[index]))
            waiting.append((engine.submit(handle, values, values), values, sets[index]))
        for operation, values, among in waiting:
            engine.wait(operation)
            assert (values == sum(rank + 1.0 for rank in among)).all()
        return len(waiting)

    assert run_ranks(4, body) == [3 * turns, 3 * turns, 3 * turns, 3 * turns]


def test_a_conflict_in_a_set_leaves_other_ranks_alone() -> None:
    def body(engine: _core.Engine) -> str:
        values = np.ones(10 + (engine.rank == 1), np.float32)
        if engine.rank < 2:
            with pytest.raises(Mismatch, match=r"rank . has .*\[1.\] among ranks 0-1"):
                engine.agree("list", [spec("w", values, among=[0, 1])])
        everybody = np.ones(5, np.float32)
        handle = engine.announce(spec("later", everybody, transient=True))
        engine.wait(engine.submit(handle, everybody, everybody))
        return "went on"

    assert run_ranks(3, body) == ["went on"] * 3


def test_wrong_sets_are_refused() -> None:
    values = np.ones(4, np.float32)
    for among, words in (
        ([0, 7], r"of 0\.\.1 in rising order"),
        ([1, 0], "in rising order"),
        ([0, 0], "each once"),
        ([1], r"rank 0 is not in the process set of rank 1"),
    ):

        def body(engine: _core.Engine, among: list[int] = among) -> None:
            if engine.rank == 0:
                engine.announce(spec("w", values, among=among))

        ours, _ = outcomes(2, body)
        assert isinstance(ours, InvalidArgument)
        assert re.search(words, str(ours)), (words, str(ours))


def test_a_root_outside_of_the_set_is_refused() -> None:
    def body(engine: _core.Engine) -> None:
        if engine.rank < 2:
            engine.announce(spec("w", np.ones(4, np.float32), collective="broadcast", root=2, among=[0, 1]))

    refused = outcomes(3, body)
    assert "the root rank 2 is not in the process set of ranks 0-1" in str(refused[0])


def test_a_list_has_one_set() -> None:
    def body(engine: _core.Engine) -> None:
        one, other = np.ones(4, np.float32), np.ones(4, np.float32)
        engine.agree("list", [spec("a", one, among=[0]), spec("b", other)])

    refused, _ = outcomes(2, lambda engine: body(engine) if engine.rank == 0 else None)
    assert "agree on the tensors of each process set alone" in str(refused)


def test_a_rank_that_leaves_ends_no_operation_of_other_ranks() -> None:
    def body(engine: _core.Engine) -> float:
        if engine.rank == 2:
            return 0.0  # it leaves at once
        if engine.rank == 1:
            time.sleep(3.5)  # longer than an operation of the rank that has left may wait
        values = np.full(4, engine.rank + 1.0, np.float32)
        handle = engine.announce(spec("w", values, transient=True, among=[0, 1]))
        engine.wait(engine.submit(handle, values, values))
        return float(values[0])

    assert run_ranks(3, body, linger=0.0) == [1.5, 1.5, 0.0]


def test_a_lost_rank_of_a_set_ends_the_job() -> None:
    def body(engine: _core.Engine) -> None:
        if engine.rank == 1:
            raise RuntimeError("this rank ends")
        if engine.rank == 0:
            values = np.ones(4, np.float32)
            handle = engine.announce(spec("w", values, transient=True, among=[0, 1]))
            engine.wait(engine.submit(handle, values, values))

    ended = outcomes(3, body)
    assert isinstance(ended[0], PeerLost)
