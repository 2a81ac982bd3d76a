# SPDX-License-Identifier: Apache-2.0
"""The engine keeps states with one value for each block, cuts them with the tensor, moves them between plans, and saves
and restores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument, Mismatch, Unsupported
from tests.core.casync.blocks import limits_program
from tests.core.casync.engine_world import gradients, identical, run_ranks, spec

pytestmark = pytest.mark.slow

Floats = NDArray[np.float32]
WORLD = 3
#: Around a block, around a partition, and several partitions with a short last block.
COUNTS = (1, 7, 255, 256, 257, 1023, 1024, 1025, 5 * 1024 + 300)
COUNT = COUNTS[-1]
STEPS = 4


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> str:
    return limits_program.load(tmp_path_factory.getbasetemp() / "limits")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return limits_program.load(tmp_path_factory.getbasetemp() / "limits", whole=True)


def states_of(engine: _core.Engine, name: str = "w") -> dict[tuple[str, str], Floats]:
    return {(role, state): engine.state(name, role, state) for tensor, role, state in engine.states() if tensor == name}


def step_of(engine: _core.Engine, tensor: int, step: int, count: int = COUNT) -> Floats:
    values = gradients(WORLD, count, step)[engine.rank].copy()
    engine.wait(engine.submit(tensor, values, values))
    return values


@pytest.mark.parametrize("count", COUNTS)
def test_workers_have_the_interpreters_states(codec: str, count: int) -> None:
    def body(engine: _core.Engine) -> Any:
        declared = spec("w", np.empty(count, np.float32), codec=codec, partitions=3, topology="allgather")
        (tensor,) = engine.declare([declared])
        return [step_of(engine, tensor, step, count) for step in range(STEPS)], states_of(engine)

    by_rank = run_ranks(WORLD, body)
    assert identical([np.concatenate(results) for results, _ in by_rank])
    reference = limits_program.interpreter()
    for rank, (_, states) in enumerate(by_rank):
        for first, length in _core.split_elements(count, 3):
            if reference.max_encoded_bytes(length) >= 4 * length:
                continue  # it is sent raw
            expected = reference.new_state(length)
            for step in range(STEPS):
                reference.encode(gradients(WORLD, count, step)[rank][first : first + length], expected)
            for name, block in (("residual", 1), ("limit", limits_program.BLOCK)):
                start = first // block
                found = states["worker", name][start : start + len(expected[name])]
                assert found.tobytes() == expected[name].tobytes(), (rank, first, name)


def replanned(codec: str, topology: str, cuts: Sequence[int]) -> list[Any]:
    def body(engine: _core.Engine) -> Any:
        results = []
        for step, partitions in enumerate(cuts):
            like = np.empty(COUNT, np.float32)
            options = {"codec": codec, "topology": topology, "transient": True}
            (tensor,) = engine.declare([spec("w", like, partitions=partitions, **options)])
            results.append(step_of(engine, tensor, step).tobytes())
        return results, {key: values.tobytes() for key, values in states_of(engine).items()}

    return run_ranks(WORLD, body)


def test_states_are_cut_with_the_partitions(codec: str) -> None:
    cuts = (1, 5, 2, 0, 3, 6, 1)
    assert replanned(codec, "allgather", cuts) == replanned(codec, "allgather", [1] * len(cuts))


def test_every_topology_keeps_replicas_identical_and_states_of_both_roles(codec: str) -> None:
    for topology in ("ps", "ring", "hierarchical", "butterfly"):
        by_rank = replanned(codec, topology, (1, 5, 2, 6))
        assert all(results == by_rank[0][0] for results, _ in by_rank), topology
        for _, states in by_rank:
            for (_, name), values in states.items():
                assert len(values) == 4 * (COUNT if name == "residual" else limits_program.blocks(COUNT)), topology


def test_a_whole_state_has_the_same_messages_and_takes_more_memory(codec: str, whole: str) -> None:
    short, long = replanned(codec, "allgather", (1, 3, 2)), replanned(whole, "allgather", (1, 3, 2))
    for (one, kept), (other, spread) in zip(short, long, strict=True):
        assert one == other
        limit = np.frombuffer(kept["worker", "limit"], np.float32)
        assert limits_program.spread(limit, COUNT).tobytes() == spread["worker", "limit"]


def test_a_value_that_is_not_finite_leaves_the_states_of_all_partitions(codec: str) -> None:
    def body(engine: _core.Engine) -> Any:
        declared = spec("w", np.empty(COUNT, np.float32), codec=codec, partitions=6, topology="allgather")
        (tensor,) = engine.declare([declared])
        step_of(engine, tensor, 0)
        before = states_of(engine)
        values = gradients(WORLD, COUNT, 1)[engine.rank].copy()
        values[2 * 1024 - 1] = np.nan
        engine.wait(engine.submit(tensor, values, values))
        return before["worker", "limit"], states_of(engine)["worker", "limit"]

    for before, after in run_ranks(WORLD, body):
        assert before.any()
        assert np.array_equal(before, after)


def test_another_plan_goes_on_with_the_states(codec: str, whole: str) -> None:
    """A change of partitions keeps them; a codec with other blocks begins with zeros."""

    def body(engine: _core.Engine) -> Any:
        like = np.empty(COUNT, np.float32)

        def way(codec: str, partitions: int) -> list[_core.TensorSpec]:
            return [spec("w", like, codec=codec, partitions=partitions, topology="allgather")]

        (tensor,) = engine.agree("list", way(codec, 2))
        step_of(engine, tensor, 0)
        before = states_of(engine)
        ((tensor, _),) = engine.agree_anew("list 2", [tensor], way(codec, 5))
        again = states_of(engine)
        step_of(engine, tensor, 1)
        late = states_of(engine)
        ((tensor, _),) = engine.agree_anew("list 3", [tensor], way(whole, 5))
        other = states_of(engine)
        step_of(engine, tensor, 2)
        return before, again, late, other, states_of(engine)

    for before, again, late, other, last in run_ranks(WORLD, body):
        for name in ("limit", "residual"):
            assert before["worker", name].any()
            assert again["worker", name].tobytes() == before["worker", name].tobytes(), name
        assert late["worker", "residual"].tobytes() == other["worker", "residual"].tobytes()
        assert ("worker", "limit") not in other
        assert last["worker", "limit"].size == COUNT


def test_a_tensor_that_is_declared_with_other_blocks_is_refused(codec: str, whole: str) -> None:
    def body(engine: _core.Engine) -> None:
        like = np.empty(COUNT, np.float32)
        for number, name in enumerate((codec, whole)):
            declared = spec("w", like, codec=name, partitions=2, topology="allgather", transient=True)
            (tensor,) = engine.declare([declared])
            if number == 0:
                step_of(engine, tensor, 0)
            else:
                with pytest.raises(Mismatch, match="one value for each 256 elements, but the codec now keeps one"):
                    engine.submit(tensor, like, like)

    run_ranks(WORLD, body)


def test_groups_of_a_plan_refuse_them(codec: str) -> None:
    def body(engine: _core.Engine) -> None:
        like = np.empty(COUNT, np.float32)
        specs = [spec(name, like, codec=codec, group="both") for name in ("a", "b")]
        with pytest.raises(Unsupported, match=r"value of 'limit' for each 256 elements.*group 'both'; plan it alone"):
            engine.agree("list", specs)

    run_ranks(WORLD, body)


def kept(engine: _core.Engine, tensor: int) -> tuple[Any, dict[str, int]]:
    """The states, as restore_states() takes them."""
    step, random, stretches, blocks = engine.kept_states(tensor)
    return (step, random, stretches, {each: engine.read_state(tensor, each, blocks[each]) for each in blocks}), blocks


def straight(engine: _core.Engine, tensor: int) -> Any:
    """What is kept after three steps, and the results of three more."""
    for step in range(3):
        step_of(engine, tensor, step)
    return kept(engine, tensor), [step_of(engine, tensor, step).tobytes() for step in range(3, 6)]


@pytest.mark.parametrize("topology", ["ps", "allgather", "ring"])
def test_an_engine_goes_on_to_the_bit_from_the_states_of_another(codec: str, topology: str) -> None:
    def begun(engine: _core.Engine) -> int:
        like = np.empty(COUNT, np.float32)
        (tensor,) = engine.agree("list", [spec("w", like, codec=codec, partitions=5, topology=topology)])
        return tensor

    by_rank = run_ranks(WORLD, lambda engine: straight(engine, begun(engine)))
    for (saved, blocks), _ in by_rank:
        assert blocks == {"limit": 256, "residual": 1}
        assert saved[3]["limit"].shape == (limits_program.blocks(COUNT),)

    def resumed(engine: _core.Engine) -> Any:
        tensor = begun(engine)
        saved, blocks = by_rank[engine.rank][0]
        assert engine.restore_states([tensor], [saved], [blocks]) == [None]
        return [step_of(engine, tensor, step).tobytes() for step in range(3, 6)]

    assert run_ranks(WORLD, resumed) == [after for _, after in by_rank]


def test_states_of_other_blocks_are_not_restored(codec: str) -> None:
    def body(engine: _core.Engine) -> None:
        like = np.empty(COUNT, np.float32)
        (tensor,) = engine.agree("list", [spec("w", like, codec=codec, partitions=5, topology="allgather")])
        step_of(engine, tensor, 0)
        (step, random, stretches, _), _ = kept(engine, tensor)
        before = states_of(engine)["worker", "limit"].tobytes()
        for values, blocks, says in (
            (COUNT, {}, "one value for each 1 elements, and its codec keeps one for each 256"),
            (COUNT // 128 + 1, {"limit": 128}, "one for each 256"),
            (COUNT, {"limit": 256}, rf"'limit' .* has {COUNT} elements, and it has {limits_program.blocks(COUNT)}"),
            (COUNT, {"limit": 100}, "numbers that divide 1024"),
            (COUNT, {"limit": 0}, "numbers that divide 1024"),
        ):
            saved: Any = (step, random, stretches, {"limit": np.zeros(values, np.float32)})
            with pytest.raises(InvalidArgument, match=says):
                engine.restore_states([tensor], [saved], [blocks])
        saved = (step, random, stretches, {"residual": np.zeros(COUNT // 4, np.float32)})
        with pytest.raises(InvalidArgument, match=r"'residual' .* a residual has one for each"):
            engine.restore_states([tensor], [saved], [{"residual": 4}])
        assert states_of(engine)["worker", "limit"].tobytes() == before

    run_ranks(WORLD, body)


def test_ranks_that_add_levels_keep_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    codec = limits_program.load_summed(tmp_path_factory.getbasetemp() / "limits")

    def begun(engine: _core.Engine) -> int:
        (tensor,) = engine.agree("list", [spec("w", np.empty(COUNT, np.float32), codec=codec)])
        return tensor

    by_rank = run_ranks(WORLD, lambda engine: straight(engine, begun(engine)))
    limits = [saved[3]["limit"] for (saved, _), _ in by_rank]
    assert all(limit.shape == (limits_program.blocks(COUNT),) for limit in limits)
    assert limits[0].any()
    assert identical(limits), "a limit follows from the agreed statistics, so all ranks have the same one"

    def resumed(engine: _core.Engine) -> Any:
        tensor = begun(engine)
        saved, blocks = by_rank[engine.rank][0]
        assert engine.restore_states([tensor], [saved], [blocks]) == [None]
        return [step_of(engine, tensor, step).tobytes() for step in range(3, 6)]

    assert run_ranks(WORLD, resumed) == [after for _, after in by_rank]
