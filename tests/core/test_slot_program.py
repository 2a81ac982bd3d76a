# SPDX-License-Identifier: Apache-2.0
"""The computations between the collectives of a process group equal the results of single codec calls.

The ranks are in one process, so copies replace the collectives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hipress
from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument, Mismatch
from tests.cases import each
from tests.core.codec_reference import same_bits
from tests.core.host_programs import HostProgram, average, exchange, new_changes, settle

ROOT = Path(__file__).parents[2]
WORLD = 3
HEADER = 32
#: Elements of the tensors: several blocks, none, one, many, and one block with a bit more.
COUNTS = [5000, 0, 1, 40_000, 257]
FACTORS = "residual_factor=0.5, gradient_factor=0.7"
ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4}
CODECS = ["onebit(block=64)", f"onebit(block=64, {FACTORS})", "int8", "fp16", "terngrad", "dgc(ratio=0.05)", "none"]


def slots(
    codec_text: str, world: int, whole: bool, exact: int = 0, *, kept: bool = False, dtype: str = "float32"
) -> list[_core.Slot]:
    """The slots of the tensors of COUNTS, and of `exact` values without a codec. `kept`: averages are not encoded."""
    made = []
    codecs = [_core.create_codec(codec_text)] * len(COUNTS) + [_core.create_codec("none")] * bool(exact)
    for tensor, (codec, count) in enumerate(zip(codecs, [*COUNTS, *[exact] * bool(exact)], strict=True)):
        for index, (first, length) in enumerate(_core.split_elements(count, 1 if whole else world)):
            slot = _core.Slot(codec, None if kept else codec.for_aggregate())
            slot.name, slot.tensor, slot.partition = f"t{tensor}", tensor, index
            slot.first = slot.first_element = first
            slot.count, slot.number = length, tensor
            raw_bytes = ELEMENT_BYTES[dtype] * length
            slot.dtype, slot.raw = dtype, codec.name == "none" or codec.max_encoded_bytes(length) >= raw_bytes
            slot.scaled = tensor == len(COUNTS)
            slot.payload_bytes = raw_bytes if slot.raw else codec.max_encoded_bytes(length)
            slot.owner = 0 if whole else (tensor + index) % world
            slot.worker_key, slot.aggregator_key = f"w{tensor} {first}", f"a{tensor} {first}"
            made.append(slot)
    return made


def values(rank: int, step: int, exact: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(100 * step + rank)
    return [random.standard_normal(count).astype(np.float32) for count in [*COUNTS, *[exact] * bool(exact)]]


class Ranks:
    """All ranks of a process group."""

    def __init__(
        self, codec: str, world: int = WORLD, whole: bool = False, exact: int = 0, dtype: str = "float32"
    ) -> None:
        self.world, self.exact = world, exact
        self.slots = slots(codec, world, whole, exact, dtype=dtype)
        topology = "allgather" if whole else "ps"
        self.programs = [HostProgram(self.slots, rank, world, topology) for rank in range(world)]

    def contribute(self, tensors: Sequence[list[np.ndarray]], step: int) -> None:
        for rank, program in enumerate(self.programs):
            program.changed = new_changes()
            program.run(0, tensors[rank], step, 1 / self.world)
        exchange(self.programs, 0)

    def average(self, tensors: Sequence[list[np.ndarray]], step: int) -> None:
        """Replaces `tensors` by their averages."""
        average(self.programs, tensors, step, 1 / self.world)

    def message(self, owner: int, sender: int, name: str) -> int:
        """Where the arena of an owner has a contribution to its last partition of a tensor."""
        start = self.programs[owner].block(0, sender, sent=False).start
        for slot in self.slots:
            if slot.owner == owner and slot.name == name:
                return start
            size = HEADER + slot.payload_bytes
            start += (slot.owner == owner) * (size + -size % 16)
        raise AssertionError(name)


class Reference:
    """Computes the same averages with the codec's own functions."""

    def __init__(self, codec: str, world: int, whole: bool) -> None:
        self.world, self.whole = world, whole
        self.slots = slots(codec, world, whole)
        self.codec = _core.create_codec(codec)
        self.states: dict[Any, Any] = {}

    def _encoded(self, slot: _core.Slot, rank: int, step: int, purpose: int, part: np.ndarray, scale: float) -> Any:
        codec = self.codec if purpose == 0 else self.codec.for_aggregate()
        states = self.states.setdefault(
            (slot.tensor, slot.first, rank, purpose), {name: np.zeros(part.size, np.float32) for name in codec.states}
        )
        seed = (rank << 34) + (2 * purpose << 32)  # no partial sums
        numbers = {"step": step, "tensor": slot.number, "first_element": slot.first_element}
        return codec.decode(codec.encode(part, states, seed=seed, scale=scale, **numbers), part.size)

    def total(self, tensors: Sequence[list[np.ndarray]], slot: _core.Slot, step: int) -> np.ndarray:
        total = None
        for rank in range(self.world):
            own = tensors[rank][slot.tensor][slot.first : slot.first + slot.count]
            if not slot.raw and (self.whole or rank != slot.owner or self.codec.merges_decoded):
                own = self._encoded(slot, rank, step, 0, own, 1.0)
            elif not slot.raw:
                own = own * np.float32(self.codec.gradient_factor)
            total = own if total is None else total + own
        assert total is not None
        return total

    def average(self, tensors: Sequence[list[np.ndarray]], step: int) -> list[np.ndarray]:
        results = [np.empty_like(each) for each in tensors[0]]
        factor = np.float32(1 / self.world)
        for slot in self.slots:
            part = slice(slot.first, slot.first + slot.count)
            total = self.total(tensors, slot, step)
            if slot.raw:
                both = 1 / self.world * np.float64(np.float32(self.codec.gradient_factor))
                results[slot.tensor][part] = total * np.float32(both)
            elif self.whole:
                results[slot.tensor][part] = total * factor
            else:
                results[slot.tensor][part] = self._encoded(slot, slot.owner, step, 1, total, float(factor))
        return results


def averages_are_those_of_the_codec(codec: str, whole: bool, world: int) -> None:
    ranks, reference = Ranks(codec, world, whole), Reference(codec, world, whole)
    for step in range(3):
        expected = reference.average([values(rank, step) for rank in range(world)], step)
        tensors = [values(rank, step) for rank in range(world)]
        ranks.average(tensors, step)
        for own in tensors:
            for tensor, (result, wanted) in enumerate(zip(own, expected, strict=True)):
                assert same_bits(result, wanted), (step, tensor)


@each("world", [1, 2, WORLD])
@each("whole", [False, True])
@each("codec", CODECS)
def test_averages_are_those_of_the_codec_to_the_bit(codec: str, whole: bool, world: int) -> None:
    averages_are_those_of_the_codec(codec, whole, world)


@pytest.mark.slow
def test_an_owner_merges_its_own_values_as_decoded() -> None:
    codec = hipress.load_codec(ROOT / "examples" / "compll" / "signsgd.cll")
    for world in (1, 2, 3, 4, 5):
        averages_are_those_of_the_codec(codec, False, world)
        averages_are_those_of_the_codec(codec, True, world)
        tensors = [values(rank, 0) for rank in range(world)]
        votes = sum(np.where(own[3] < 0, -1, 1) for own in tensors)
        Ranks(codec, world).average(tensors, 0)
        for own in tensors:
            assert np.array_equal(own[3], np.where(votes < 0, -1, 1))
    owner_keeps_an_average_that_is_not_encoded(codec)


def narrowed(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of float32 in another type; bfloat16 as NumPy's int16."""
    if dtype == "bfloat16":
        return np.frombuffer(bytearray(_core.narrow(np.ascontiguousarray(array), dtype)), np.int16)
    return array.astype(dtype)


def widened(array: np.ndarray, dtype: str) -> np.ndarray:
    return _core.widen(array.tobytes(), dtype)


@each("dtype", ["float16", "float64", "bfloat16"])
@each("whole", [False, True])
def test_other_types_travel_encoded_as_float32_and_raw_as_they_are(dtype: str, whole: bool) -> None:
    ranks, same = Ranks("int8", whole=whole, dtype=dtype), Ranks("int8", whole=whole)
    given = [[narrowed(each, dtype) for each in values(rank, 0)] for rank in range(WORLD)]
    before = [[each.copy() for each in own] for own in given]
    wide = [[widened(each, dtype) for each in own] for own in given]
    ranks.average(given, 0)
    same.average(wide, 0)
    raw = 0
    for slot in ranks.slots:
        part = slice(slot.first, slot.first + slot.count)
        expected = narrowed(wide[0][slot.tensor][part], dtype)
        if slot.raw and slot.count > 0:
            raw += 1
            expected = average_in_type([own[slot.tensor][part] for own in before], dtype)
        for own in given:
            assert own[slot.tensor][part].tobytes() == expected.tobytes()
    assert raw > 0 or dtype == "float64"


def average_in_type(parts: list[np.ndarray], dtype: str) -> np.ndarray:
    """As the engine averages raw values: 16-bit types in float32 with one rounding, float64 in float64."""
    total = sum(parts[1:], parts[0]) if dtype == "float64" else sum(widened(each, dtype) for each in parts)
    average: np.ndarray = total * total.dtype.type(1 / len(parts))
    return narrowed(average, dtype)


@each("dtype", ["float16", "float64", "bfloat16"])
@each("whole", [False, True])
def test_raw_values_are_averaged_in_their_type(dtype: str, whole: bool) -> None:
    """float32 has none of these values, except those of 16 bits; and their sum needs more bits than the type has."""
    ranks = Ranks("none", whole=whole, dtype=dtype)
    fine = {"float64": 2.0**-40, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    given = []
    for rank in range(WORLD):
        own = [1 + fine * np.arange(count) + rank * fine for count in COUNTS]
        given.append([narrowed(each.astype(np.float32 if dtype != "float64" else None), dtype) for each in own])
    expected = [average_in_type([own[tensor] for own in given], dtype) for tensor in range(len(COUNTS))]
    ranks.average(given, 0)
    for own in given:
        for result, wanted in zip(own, expected, strict=True):
            assert result.tobytes() == wanted.tobytes()
    elements = sum(slot.payload_bytes for slot in ranks.slots)
    assert elements == ELEMENT_BYTES[dtype] * sum(COUNTS)


def test_tensors_of_another_type_than_their_slots_are_refused() -> None:
    ranks = Ranks("onebit")
    tensors = [each.astype(np.float64) for each in values(0, 0)]
    with pytest.raises(InvalidArgument, match="'t0' has elements of type float64, and its slots are for float32"):
        ranks.programs[0].run(0, tensors, 0, 1.0)


@each("codec", ["onebit", "fp16"])
def test_values_without_a_codec_are_added_in_rank_order(codec: str) -> None:
    """The values already contain the factor: a huge value times the number of ranks would not be finite."""
    ranks = Ranks(codec, exact=1001)
    tensors = [values(rank, 0, 1001) for rank in range(WORLD)]
    for rank in range(WORLD):
        tensors[rank][-1][7] = np.float32(3e38) / np.float32(WORLD)
    expected = (tensors[0][-1] + tensors[1][-1]) + tensors[2][-1]
    ranks.average(tensors, 0)
    assert np.isfinite(expected[7])
    for own in tensors:
        assert same_bits(own[-1], expected)


@each("codec", ["onebit", "int8", "none"])
def test_an_owner_may_keep_an_average_that_is_not_encoded(codec: str) -> None:
    owner_keeps_an_average_that_is_not_encoded(codec)


def owner_keeps_an_average_that_is_not_encoded(codec: str) -> None:
    kept = slots(codec, WORLD, False, kept=True)
    given = [values(rank, 0) for rank in range(WORLD)]
    results = [[each.copy() for each in own] for own in given]
    average([HostProgram(kept, rank, WORLD) for rank in range(WORLD)], results, 0, 0.5)
    reference = Reference(codec, WORLD, False)
    for slot in kept:
        total = reference.total(given, slot, 0)
        part = slice(slot.first, slot.first + slot.count)
        for rank in range(WORLD):
            expected = given[rank][slot.tensor][part]
            if slot.owner == rank:
                both = 0.5 * np.float64(np.float32(reference.codec.gradient_factor)) if slot.raw else 0.5
                expected = total * np.float32(both)
            assert same_bits(results[rank][slot.tensor][part], expected)


@each("codec", ["onebit", "none"])
@each("whole", [False, True])
def test_a_value_that_is_not_finite_reaches_all_ranks(codec: str, whole: bool) -> None:
    ranks = Ranks(codec, whole=whole)
    ranks.average([values(rank, 0) for rank in range(WORLD)], 0)
    before = [each.states.read() for each in ranks.programs]
    tensors = [values(rank, 1) for rank in range(WORLD)]
    tensors[1][3][39_999] = np.nan
    ranks.average(tensors, 1)
    for own in tensors:
        assert np.isnan(own[3][39_999])
        assert np.isfinite(own[0]).all()
    key = "w3 0" if whole else f"w3 {next(s.first for s in slots(codec, WORLD, whole) if s.first + s.count == 40_000)}"
    for program in ranks.programs:
        assert settle(program.changed)
    if codec == "onebit" and key in before[1]:
        assert same_bits(ranks.programs[1].states.read()[key]["residual"], before[1][key]["residual"])


@each("codec", ["onebit", "topk(ratio=0.05)"])
@each("whole", [False, True])
@each("ranks_without", [[0], [1, 2]])
def test_zeros_of_some_ranks_are_averaged_as_other_values(codec: str, whole: bool, ranks_without: list[int]) -> None:
    ranks, reference = Ranks(codec, whole=whole), Reference(codec, WORLD, whole)
    for step in range(3):
        given = [values(rank, step) for rank in range(WORLD)]
        for rank in ranks_without if step == 1 else []:
            for each_tensor in given[rank]:
                each_tensor[:] = 0
        expected = reference.average(given, step)
        tensors = [[each_tensor.copy() for each_tensor in own] for own in given]
        ranks.average(tensors, step)
        for own in tensors:
            for result, wanted in zip(own, expected, strict=True):
                assert same_bits(result, wanted)


def test_a_failed_step_leaves_the_states() -> None:
    ranks = Ranks("onebit")
    ranks.average([values(rank, 0) for rank in range(WORLD)], 0)
    before = [each.states.read() for each in ranks.programs]
    assert all(before)
    ranks.average([values(rank, 1) for rank in range(WORLD)], 1)
    changed = 0
    for program, old in zip(ranks.programs, before, strict=True):
        now = program.states.read()
        changed += sum(not same_bits(now[key]["residual"], states["residual"]) for key, states in old.items())
        program.changed.discard()
        assert settle(program.changed)
        assert not settle(program.changed)  # the next step has changed nothing
        for key, states in program.states.read().items():
            assert same_bits(states["residual"], old[key]["residual"])
    assert changed > WORLD


@each("at", [0, 8, 16, 3])
@each("codec", ["onebit", "none"])
def test_a_damaged_message_is_named(codec: str, at: int) -> None:
    """The damage hits the magic, the element count, the payload size or the flags of rank 2's message for rank 1's last
    tensor."""
    ranks = Ranks(codec)
    tensors = [values(rank, 0) for rank in range(WORLD)]
    ranks.contribute(tensors, 0)
    own = [slot for slot in ranks.slots if slot.owner == 1]
    program = ranks.programs[1]
    program.arena[ranks.message(1, 2, own[-1].name) + at] ^= 0x42
    where = rf"tensor '{own[-1].name}', partition {own[-1].partition}, from rank 2 of the group"
    with pytest.raises(CorruptPayload, match=where):
        program.run(1, tensors[1], 0, 1 / WORLD)


@each("nan", [False, True])
@each(
    ("codec", "dtype"),
    [("onebit", "float32"), ("onebit", "float16"), ("none", "float64"), ("none", "float32"), ("none", "int32")],
)
def test_all_ranks_learn_of_a_refused_contribution(codec: str, dtype: str, nan: bool) -> None:
    """They get zeros, or NaN where the type has it; then the step does not count."""
    ranks = Ranks(codec, dtype=dtype)
    tensors = [[(9 * each_tensor).astype(dtype) for each_tensor in values(rank, 0)] for rank in range(WORLD)]
    ranks.contribute(tensors, 0)
    for program in ranks.programs:
        program.changed.nan_if_refused = nan
        assert program.changed.nan_if_refused == nan
    refused = next(slot for slot in ranks.slots if slot.owner == 1 and slot.name == "t3")
    ranks.programs[1].arena[ranks.message(1, 2, "t3")] ^= 0x42
    for rank, program in enumerate(ranks.programs):
        with pytest.raises(CorruptPayload) if rank == 1 else contextlib.nullcontext():
            program.run(1, tensors[rank], 0, 1.0)
    exchange(ranks.programs, 1)
    for rank in (0, 2):
        with pytest.raises(CorruptPayload, match=r"rank 1 of the group: it has refused the .* rank 2"):
            ranks.programs[rank].run(2, tensors[rank], 0, 1.0)
    part = slice(refused.first, refused.first + refused.count)
    for own in tensors:
        assert np.isnan(own[3][part]).all() if nan and dtype != "int32" else not own[3][part].any()
        for others in (own[0], np.delete(own[3], part)):
            assert np.isfinite(others).all()
            assert others.any()
    for rank in (0, 2):
        assert settle(ranks.programs[rank].changed) == (nan and dtype != "int32")


def test_memory_of_another_size_is_refused() -> None:
    ranks = Ranks("onebit")
    program = ranks.programs[0]
    tensors = values(0, 0)
    with pytest.raises(InvalidArgument, match="the arena has"):
        program.run(0, tensors, 0, 1.0, program.arena[1:])
    with pytest.raises(InvalidArgument, match="more tensors than are given"):
        program.run(0, tensors[:-1], 0, 1.0)
    with pytest.raises(InvalidArgument, match="'t0' has fewer elements"):
        program.run(0, [tensors[0][:-1], *tensors[1:]], 0, 1.0)


def test_slots_that_are_too_small_are_refused() -> None:
    for field, value in (("payload_bytes", 3), ("owner", -1)):
        wrong = slots("onebit", WORLD, False)
        setattr(wrong[0], field, value)
        with pytest.raises(InvalidArgument):
            HostProgram(wrong, 0, WORLD)


def test_states_of_another_length_are_refused() -> None:
    ranks = Ranks("onebit")
    for slot in ranks.slots:
        ranks.programs[0].states.put(slot.worker_key, "residual", np.zeros(slot.count + 1, np.float32))
    with pytest.raises(Mismatch, match=r"has states of \d+ elements"):
        ranks.contribute([values(rank, 0) for rank in range(WORLD)], 0)
