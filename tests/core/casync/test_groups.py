# SPDX-License-Identifier: Apache-2.0
"""The tensors of a group travel as one tensor, but each member is submitted and awaited alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import DuplicateName, InvalidArgument, Mismatch, Timeout, TransportError
from tests.core.casync.device_world import Place, forget_frames, freed, simulated
from tests.core.casync.engine_world import gradients, identical, outcomes, run_ranks, spec

Floats = NDArray[np.float32]
COUNTS = [1000, 1, 0, 4097]
WORLD = 3
HEADER = 32


def values_of(rank: int, step: int = 0) -> list[Floats]:
    together = gradients(WORLD, sum(COUNTS), seed=step)[rank]
    return [each.copy() for each in np.split(together, np.cumsum(COUNTS)[:-1])]


def specs(names: str = "abcd", group: str = "g", **options: Any) -> list[_core.TensorSpec]:
    return [spec(name, values, group=group, **options) for name, values in zip(names, values_of(0), strict=True)]


def step(engine: _core.Engine, handles: list[int], values: list[Floats], order: list[int]) -> None:
    waiting = [engine.submit(handles[index], values[index], values[index]) for index in order]
    for operation in waiting:
        assert not engine.wait(operation)


@pytest.mark.parametrize("codec", ["none", "onebit", "dgc(ratio=0.1)"])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
def test_a_group_is_synchronised_as_one_tensor_would_be(codec: str, topology: str) -> None:
    """The bits are equal in every step, in whichever order the members are submitted."""
    way = {"codec": codec, "topology": topology, "partitions": 2}

    def grouped(engine: _core.Engine) -> list[Floats]:
        handles = engine.agree("list", specs(**way))
        seen = []
        for turn in range(3):
            values = values_of(engine.rank, turn)
            step(engine, handles, values, [(index + engine.rank + turn) % 4 for index in range(4)])
            seen.append(np.concatenate(values))
        return seen

    def alone(engine: _core.Engine) -> list[Floats]:
        name = "g of 'a', 'b', 'c' and 1 more"  # the name of a tensor gives the aggregator of its first partition
        (handle,) = engine.agree("list", [spec(name, np.empty(sum(COUNTS), np.float32), **way)])
        seen = [np.concatenate(values_of(engine.rank, turn)) for turn in range(3)]
        for together in seen:
            engine.wait(engine.submit(handle, together, together))
        return seen

    by_rank = run_ranks(WORLD, grouped, options={"hosts": [0, 1, 1]})
    for outputs in zip(*by_rank, strict=True):
        assert identical(outputs)
    if not codec.startswith("dgc"):  # dgc's sample depends on the tensor's number
        for ours, theirs in zip(by_rank[0], run_ranks(WORLD, alone, options={"hosts": [0, 1, 1]})[0], strict=True):
            assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("codec", ["none", "onebit", "terngrad"])
@pytest.mark.parametrize("where", [(1, 1, 1), (0, 1, 0)])
def test_groups_on_devices_have_the_bits_of_the_host(codec: str, where: tuple[int, ...]) -> None:
    """The bits of each member are equal; a member without values counts as zeros on a device, too."""

    def body(engine: _core.Engine) -> list[bytes]:
        place = Place(engine, devices[engine.rank])
        given = values_of(0)
        described = [
            spec(name, each, group="g", codec=codec, partitions=2, device=place.device)
            for name, each in zip("abcd", given, strict=True)
        ]
        handles = engine.agree("list", described)
        seen = []
        for turn in range(3):
            values: list[Floats | None] = [*values_of(engine.rank, turn)]
            if turn == 1:
                values[(1, 3, 0)[engine.rank]] = None
            started = [
                place.start(handle, each, like, in_place=turn == 2)
                for handle, each, like in zip(handles, values, given, strict=True)
            ]
            for each in started:
                result = place.finish(each)
                assert result is not None
                seen.append(result.tobytes())
        return seen

    devices: list[Any] = [None] * WORLD
    on_host = run_ranks(WORLD, body)
    there = simulated(WORLD)
    devices = [device if used else None for device, used in zip(there, where, strict=True)]
    assert run_ranks(WORLD, body) == on_host
    assert all(freed(device) for device in there)


def test_a_device_that_fails_ends_the_members_of_a_group() -> None:
    there = simulated(WORLD)
    there[1].fail_after(3)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank)
        described = [
            spec(name, each, group="g", device=place.device) for name, each in zip("abcd", values, strict=True)
        ]
        handles = engine.agree("list", described)
        started = [place.start(*each, each[1]) for each in zip(handles, values, strict=True)]
        for each in started:
            place.finish(each)

    for error in forget_frames(outcomes(WORLD, body, options={"timeout": 10.0})):
        assert isinstance(error, TransportError)
        assert "rank 1" in str(error)
        assert "device simulated:0 failed" in str(error)
    assert all(freed(device) for device in there)


def test_tensors_of_a_group_are_on_one_device() -> None:
    first, second = simulated(2)

    def body(engine: _core.Engine) -> None:
        with pytest.raises(InvalidArgument, match="'a' and 'b' are on different devices"):
            engine.agree(
                "list", [_core.TensorSpec(n, count=9, group="g", device=d) for n, d in (("a", first), ("b", second))]
            )

    run_ranks(1, body)


def test_one_message_carries_all_members() -> None:
    def body(engine: _core.Engine) -> tuple[int, int]:
        handles = engine.agree("list", specs(codec="fp16", partitions=1))
        step(engine, handles, values_of(engine.rank), [0, 1, 2, 3])
        engine.allgather("done", b"")
        counters = engine.counters()
        return counters["messages_sent"], counters["bytes_sent"]

    message = 2 * sum(COUNTS) + HEADER
    sent = run_ranks(WORLD, body)
    assert sorted(sent) == [(1, message), (1, message), (2, 2 * message)]


def test_a_member_without_values_counts_as_zeros() -> None:
    def body(engine: _core.Engine) -> tuple[list[Floats], list[bool]]:
        handles = engine.agree("list", specs(op="sum"))
        values = values_of(engine.rank)
        inputs = [None if engine.rank == index else each for index, each in enumerate(values)]
        waiting = [engine.submit(*each) for each in zip(handles, inputs, values, strict=True)]
        return values, [engine.wait(operation) for operation in waiting]

    given = [values_of(rank) for rank in range(WORLD)]
    for values, absent in run_ranks(WORLD, body):
        assert absent == [False] * 4
        for index, each in enumerate(values):
            expected = sum(given[rank][index] for rank in range(WORLD) if rank != index)
            assert np.allclose(each, expected, atol=1e-6)


def test_if_no_rank_has_values_of_any_member_no_output_is_written() -> None:
    def body(engine: _core.Engine) -> bool:
        handles = engine.agree("list", specs(codec="onebit"))
        outputs = [np.full_like(each, 7) for each in values_of(0)]
        waiting = [engine.submit(handle, None, output) for handle, output in zip(handles, outputs, strict=True)]
        absent = [engine.wait(each) for each in waiting]
        return all(absent) and all(np.all(output == 7) for output in outputs)

    assert all(run_ranks(WORLD, body))


def test_members_may_be_waited_for_by_callback_and_in_any_order() -> None:
    def body(engine: _core.Engine) -> list[tuple[str | None, bool]]:
        handles = engine.agree("list", specs())
        ended: list[tuple[str | None, bool]] = []
        values = values_of(engine.rank)
        for index in (0, 1):
            engine.submit(handles[index], values[index], values[index], lambda *result: ended.append(result))
        third = engine.submit(handles[2], values[2], values[2])
        assert not engine.poll(third)
        assert not ended
        engine.wait(engine.submit(handles[3], values[3], values[3]))
        engine.wait(third)
        engine.allgather("ended", b"")
        return ended

    for ended in run_ranks(WORLD, body):
        assert ended == [(None, False)] * 2


def test_a_member_is_in_flight_until_the_whole_group_has_ended() -> None:
    def body(engine: _core.Engine) -> None:
        handles = engine.agree("list", specs())
        values = values_of(engine.rank)
        first = engine.submit(handles[0], values[0], values[0])
        with pytest.raises(DuplicateName, match="'a' is being synchronised already"):
            engine.submit(handles[0], values[0], values[0])
        with pytest.raises(InvalidArgument, match="'a' is being synchronised"):
            engine.agree_anew("list 2", handles, specs(group=""))
        for operation in [first, *(engine.submit(handles[i], values[i], values[i]) for i in (1, 2, 3))]:
            engine.wait(operation)

    run_ranks(WORLD, body)


def test_a_member_that_was_not_submitted_is_named() -> None:
    def body(engine: _core.Engine) -> None:
        handles = engine.agree("list", specs())
        values = values_of(engine.rank)
        members = (1, 2) if engine.rank == 1 else range(4)
        for operation in [engine.submit(handles[i], values[i], values[i]) for i in members]:
            engine.wait(operation)

    errors = outcomes(WORLD, body, options={"timeout": 1.0})
    assert all(isinstance(error, Timeout) for error in errors)
    texts = " | ".join(map(str, errors))
    assert "has not submitted 'a', 'd', which travel with it as group 'g'" in texts or (
        "'g of 'a', 'b', 'c' and 1 more'" in texts and "rank 1" in texts
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"codec": "onebit"}, r"group 'g': 'a' .*none.* and 'b' .*onebit.* cannot travel together"),
        ({"dtype": "float64"}, r"'a' .*float32.* and 'b' .*float64"),
        ({"op": "sum"}, r"'a' \(allreduce average.*'b' \(allreduce sum"),
        ({"topology": "ring"}, r"topology ps.*topology ring"),
    ],
)
def test_what_is_not_sent_alike_is_refused_by_name(other: dict[str, Any], message: str) -> None:
    def body(engine: _core.Engine) -> None:
        common = {"count": 10, "group": "g"}
        with pytest.raises(InvalidArgument, match=message):
            engine.agree("list", [_core.TensorSpec("a", **common), _core.TensorSpec("b", **{**common, **other})])

    run_ranks(1, body)


def test_ranks_that_group_otherwise_are_told() -> None:
    def body(engine: _core.Engine) -> None:
        engine.agree("list", specs(group="h" if engine.rank == 1 else "g"))

    for error in outcomes(WORLD, body):
        assert isinstance(error, Mismatch)
        assert "in group h" in str(error)


def test_groups_that_stay_as_they_are_keep_their_numbers() -> None:
    def body(engine: _core.Engine) -> tuple[list[int], list[int], list[int]]:
        handles = engine.agree("list", specs())
        same = [handle for handle, _ in engine.agree_anew("list 2", handles, specs())]
        less = specs()
        less[3] = spec("d", values_of(0)[3])
        fewer = [handle for handle, _ in engine.agree_anew("list 3", handles, less)]
        step(engine, fewer, values_of(engine.rank), [3, 2, 1, 0])
        return handles, same, fewer

    for handles, same, fewer in run_ranks(WORLD, body):
        assert same == handles
        assert not set(fewer) & set(handles), "without 'd' the group is another group"
