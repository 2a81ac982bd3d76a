# SPDX-License-Identifier: Apache-2.0
"""Every topology gives the same bits over both carriers: by the engine's tasks, and by programs of slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload
from tests.cases import each
from tests.core.casync.engine_world import gradients, run_ranks, spec
from tests.core.casync.graph.test_topologies import CODECS, TOPOLOGIES, hosts_of
from tests.core.codec_reference import same_bits
from tests.core.host_programs import HostProgram, average, exchange, settle

#: Elements of the tensors: none, one, a few, a partition with a bit more, and many.
COUNTS = {"empty": 0, "one": 1, "seven": 7, "some": 4097, "many": 50_003}
PARTITIONS = 5
STEPS = 3
HEADER = 32


def slots_of(codec: str, world: int, topology: str, dtype: str = "float32") -> list[_core.Slot]:
    """The partitions of the tensors, as the engine cuts them."""
    made = []
    of_codec = _core.create_codec(codec)
    for tensor, (name, count) in enumerate(COUNTS.items()):
        owner = _core.first_aggregator(name, world)
        for index, (first, length) in enumerate(_core.split_elements(count, PARTITIONS)):
            slot = _core.Slot(of_codec, of_codec.for_aggregate())
            slot.name, slot.tensor, slot.partition = name, tensor, index
            slot.first = slot.first_element = first
            slot.count, slot.number, slot.owner = length, _core.number_of_name(name), owner + index
            raw = np.dtype(dtype).itemsize * length
            slot.dtype, slot.raw = dtype, of_codec.name == "none" or of_codec.max_encoded_bytes(length) >= raw
            slot.payload_bytes = raw if slot.raw else of_codec.max_encoded_bytes(length)
            slot.worker_key, slot.aggregator_key = f"w {name} {first}", f"a {name} {first}"
            made.append(slot)
    return made


def programs(codec: str, world: int, topology: str, dtype: str = "float32") -> list[HostProgram]:
    slots = slots_of(codec, world, topology, dtype)
    hosts = hosts_of(world) if topology.startswith("hierarchical") else []
    return [HostProgram(slots, rank, world, topology, hosts) for rank in range(world)]


def inputs(world: int, step: int, dtype: str = "float32") -> list[list[NDArray[Any]]]:
    """The tensors of all ranks."""
    of_all = [gradients(world, count, seed=100 * step + count) for count in COUNTS.values()]
    return [[of_ranks[rank].astype(dtype) for of_ranks in of_all] for rank in range(world)]


def by_engine(codec: str, world: int, topology: str, dtype: str) -> list[list[NDArray[Any]]]:
    """All averages of the first rank, step by step."""

    def body(engine: _core.Engine) -> list[list[NDArray[Any]]]:
        options = {"codec": codec, "topology": topology, "partitions": PARTITIONS}
        given = inputs(world, 0, dtype)[engine.rank]
        tensors = engine.declare(
            [spec(name, value, lasting_name=name, **options) for name, value in zip(COUNTS, given, strict=True)]
        )
        results = []
        for step in range(STEPS):
            outputs = inputs(world, step, dtype)[engine.rank]
            started = [engine.submit(tensor, out, out) for tensor, out in zip(tensors, outputs, strict=True)]
            for operation in started:
                engine.wait(operation)
            results.append(outputs)
        return results

    return run_ranks(world, body, options={"hosts": hosts_of(world), "compute_threads": 1})[0]


@each("codec", CODECS)
@each("world", [3, 4, 7])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_both_carriers_give_the_same_bits(topology: str, world: int, codec: str) -> None:
    same_on_both(topology, world, codec, "float32")


@each("dtype", ["float16", "float64"])
@each("codec", ["none", "int8"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_other_types_too(topology: str, codec: str, dtype: str) -> None:
    same_on_both(topology, 4, codec, dtype)


def same_on_both(topology: str, world: int, codec: str, dtype: str) -> None:
    expected = by_engine(codec, world, topology, dtype)
    ranks = programs(codec, world, topology, dtype)
    for step in range(STEPS):
        tensors = inputs(world, step, dtype)
        average(ranks, tensors, step, 1 / world)
        for own in tensors:
            for name, result, wanted in zip(COUNTS, own, expected[step], strict=True):
                assert same_bits(result, wanted), (step, name)


def _total(residuals: Sequence[tuple[HostProgram, float]], name: str) -> NDArray[np.float64]:
    """What residuals of a tensor add to its average."""
    total = np.zeros(COUNTS[name])
    for program, _ in residuals:
        for key, states in program.states.read().items():
            role, of, first = key.split()
            if of == name:
                values = states["residual"].astype(np.float64)
                total[int(first) : int(first) + len(values)] += values / (len(residuals) if role == "w" else 1)
    return total


@each("world", [3, 4, 7])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nothing_is_lost(topology: str, world: int) -> None:
    """Averages and what is held back are together the average of the gradients."""
    ranks = programs("onebit", world, topology)
    total = {name: np.zeros(count) for name, count in COUNTS.items()}
    for step in range(STEPS):
        tensors = inputs(world, step)
        for name, *values in zip(COUNTS, *tensors, strict=True):
            total[name] += np.mean([each.astype(np.float64) for each in values], axis=0)
        average(ranks, tensors, step, 1 / world)
        for name, value in zip(COUNTS, tensors[0], strict=True):
            total[name] -= value
    for name in ("some", "many"):
        held_back = _total([(each, 1.0) for each in ranks], name)
        np.testing.assert_allclose(held_back, total[name], atol=1e-4)


@each("codec", ["onebit", "none", "fp16"])
@each("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_all_ranks_learn_of_a_value_that_is_not_finite(topology: str, rank: int, codec: str) -> None:
    ranks = programs(codec, 4, topology)
    average(ranks, inputs(4, 0), 0, 0.25)
    before = [each.states.read() for each in ranks]
    tensors = inputs(4, 1)
    tensors[rank][4][49_000] = np.nan
    average(ranks, tensors, 1, 0.25)
    for own in tensors:
        assert np.isnan(own[4][49_000])
        assert np.isfinite(own[3]).all()
    for program, states in zip(ranks, before, strict=True):
        assert settle(program.changed)
        for key, values in program.states.read().items():
            assert same_bits(values["residual"], states[key]["residual"])


@each("without", [[0], [1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_tensor_without_gradients_keeps_its_residuals(topology: str, without: list[int]) -> None:
    ranks = programs("onebit", 4, topology)
    average(ranks, inputs(4, 0), 0, 0.25)
    for program in ranks:
        settle(program.changed)
    before = [each.states.read() for each in ranks]
    tensors = inputs(4, 1)
    for rank in without:
        tensors[rank][4][:] = 0
    average(ranks, tensors, 1, 0.25)
    for program, states in zip(ranks, before, strict=True):
        assert not settle(program.changed)
        now = program.states.read()
        of_many = [key for key in now if key.split()[1] == "many"]
        unchanged = all(same_bits(now[key]["residual"], states[key]["residual"]) for key in of_many)
        assert unchanged is (len(without) == 4 or not of_many)
    if len(without) == 4:
        assert not any(own[4].any() for own in tensors)


def average_with_damage(ranks: Sequence[HostProgram], hop: int) -> tuple[tuple[int, int], list[CorruptPayload | None]]:
    """Damages the first message that comes in this hop. Returns its sender and receiver, and the ranks' errors."""
    damaged: list[tuple[int, int]] = []
    errors: list[CorruptPayload | None] = [None] * len(ranks)
    tensors = inputs(len(ranks), 0)
    for number in range(1 + max(len(program.hops) for program in ranks)):
        for rank, program in enumerate(ranks):
            if number <= len(program.hops):
                try:
                    program.run(number, tensors[rank], 0, 1 / len(ranks))
                except CorruptPayload as error:
                    errors[rank] = errors[rank] or error
        exchange(ranks, number)
        for receiver in ranks if number == hop else ():
            for sender in range(len(ranks)) if hop < len(receiver.hops) else ():
                block = receiver.block(hop, sender, sent=False)
                if block.stop > block.start and not damaged:
                    receiver.arena[block.start] ^= 0x42
                    damaged.append((sender, receiver.rank))
    return damaged[0], errors


@each("hop", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_damaged_message_is_named(topology: str, hop: int) -> None:
    """Of a contribution or a partial sum all ranks learn that get the average."""
    ranks = programs("onebit", 4, topology)
    hops = max(len(program.hops) for program in ranks)
    if hop >= hops:
        return
    (sender, receiver), errors = average_with_damage(ranks, hop)
    assert f"from rank {sender} of the group" in str(errors[receiver])
    if hop < hops // 2 and topology in ("ps", "ring", "butterfly"):
        assert all(errors)


def test_a_hop_sends_from_where_the_hop_before_has_received() -> None:
    """Of sums no second room is needed, and a ring passes results on without a copy."""
    for program in programs("int8", 4, "ps"):
        first, second = program.hops
        assert second.send_at == first.receive_at
        assert program.program.arena_bytes == sum(first.sent) + sum(first.received)
    for program in programs("int8", 4, "ring"):
        for before, hop in zip(program.hops[3:], program.hops[4:], strict=False):
            if sum(before.received) == sum(hop.sent):
                assert hop.send_at == before.receive_at
        assert "copy 0" in str(program.program).splitlines()[9]


@each("world", [4, 8, 16])
@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather", "hierarchical", "hierarchical(ring)"])
def test_an_arena_has_the_bytes_of_the_formula(topology: str, world: int) -> None:
    """docs/algorithms.md. The tensor has a partition for each rank, and hosts have two ranks."""
    codec, count = _core.create_codec("int8"), 1 << 20
    slots = []
    for share, (first, length) in enumerate(_core.split_elements(count, world)):
        slot = _core.Slot(codec, codec.for_aggregate())
        slot.name, slot.first, slot.count, slot.owner = "t", first, length, share
        slot.payload_bytes = codec.max_encoded_bytes(length)
        slots.append(slot)
    hosts = [rank // 2 for rank in range(world)] if topology.startswith("hierarchical") else []
    arena = _core.SlotProgram(slots, 0, world, topology, hosts).arena_bytes
    encoded = sum(slot.payload_bytes for slot in slots)
    wanted = {
        "ps": 2 * encoded * (world - 1) / world,
        "ring": 2 * encoded / world,
        "butterfly": 3 / 2 * encoded,
        "allgather": 2 * encoded * (world - 1),
    }.get(topology, 4 * count)
    assert (0.7 if topology == "butterfly" else 1.0) * wanted <= arena <= 1.01 * wanted


def test_a_program_can_be_read() -> None:
    texts = {topology: str(programs("onebit", 4, topology)[0].program) for topology in ("ps", "ring", "allgather")}
    assert texts["ps"].count("all_to_all:") == 2
    assert texts["ring"].count("exchange:") == 6
    assert texts["allgather"].count("all_to_all:") == 1
    assert texts["ps"].startswith("rank 0 of 4, topology ps, arena")
    assert "run 0: merge 0 encode" in texts["ps"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@each("world", [1, 2, 3, 4, 5, 7, 8])
def test_what_a_rank_sends_in_a_hop_the_other_receives(topology: str, world: int) -> None:
    ranks = programs("int8", world, topology)
    for one in ranks:
        for hop, of in enumerate(one.hops):
            for other in ranks:
                theirs = other.hops[hop].received[one.rank] if hop < len(other.hops) else 0
                assert of.sent[other.rank] == theirs
    assert len({len(each_rank.hops) for each_rank in ranks}) == 1
    assert all(each_rank.program.is_all_to_all is (topology in ("ps", "allgather")) for each_rank in ranks)
