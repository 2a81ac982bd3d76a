# SPDX-License-Identifier: Apache-2.0
"""Averages over groups of GPU tensors: the bytes, averages and states of the processor, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import hipress
import hipress.torch as hp
from hipress.torch.process_groups import (
    BackendOptions,
    CompressingGroup,
    GroupAverage,
    GroupOptions,
    compressing_group,
    gradients,
    group_calls,
)
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.gpus.side import GpuSide
from hipress.torch.process_groups.sides import side_for
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups.averages import (
    SIGNSGD,
    as_on_the_processor,
    average_of,
    summed_as_on_the_processor,
    tensors_of,
)
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

WORLD = 3


@training.in_process_group
def _as_on_the_processor(rank: int, world: int, topology: str) -> None:
    # Topologies differ in who adds what, not in how a codec encodes.
    codecs = () if (topology, world) == ("ps", WORLD) else ("onebit(block=64)", "terngrad", "dgc(ratio=0.05)")
    as_on_the_processor(rank, world, topology, FakeGpuSide, codecs)


@pytest.mark.parametrize(
    ("topology", "world"), [("ps", WORLD), thorough("allgather", WORLD), ("ps", 1), thorough("hierarchical", 4)]
)
def test_averages_and_states_are_those_of_the_processor(tmp_path: Path, topology: str, world: int) -> None:
    run(_as_on_the_processor, world, str(tmp_path), world, topology)


@training.in_process_group
def _summed_as_on_the_processor(rank: int) -> None:
    summed_as_on_the_processor(rank, FakeGpuSide)


def test_added_levels_and_states_are_those_of_the_processor(tmp_path: Path) -> None:
    run(_summed_as_on_the_processor, WORLD, str(tmp_path))


@training.in_process_group
def _scaled(rank: int) -> None:
    """A GPU follows the scaler's tensor, which the host does not read."""
    scale = torch.ones(())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(scale)
    scaled = average_of(GroupOptions("onebit", min_compress_bytes=0, scaler=scaler), FakeGpuSide())
    plain = average_of(GroupOptions("onebit", min_compress_bytes=0, scaler=lambda: 1.0), FakeGpuSide())
    for step, now in enumerate((65536.0, 65536.0, 512.0, 512.0, 1024.0)):
        scaler.update(now)
        results = []
        for average, factor in ((scaled, now), (plain, 1.0)):
            given = {name: each for name, each in tensors_of(rank, step).items() if each.dtype == torch.float32}
            tensors = {name: values * factor for name, values in given.items()}
            average.start(list(tensors.items()), step).wait()
            average._side.synchronize()
            average.raise_error()
            results.append({name: values / factor for name, values in tensors.items()})
        for name, values in results[0].items():
            assert torch.equal(values, results[1][name]), (step, name)
    saved, wanted = scaled.state_dict(), plain.state_dict()
    for key, states in saved.items():
        for state, values in states.items():
            assert values.tobytes() == wanted[key][state].tobytes(), key


def test_states_follow_the_loss_scale_on_the_gpu(tmp_path: Path) -> None:
    run(_scaled, 2, str(tmp_path))


@training.in_process_group
def _corrupted(rank: int) -> str:
    average = average_of(GroupOptions("onebit", "ps", min_compress_bytes=0), FakeGpuSide())
    send = group_calls.all_to_all

    def damage(group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
        if rank == 0 and given.numel() > 1000:
            given.view(-1)[16:20] = torch.frombuffer(bytearray(b"\xff\xff\xff\x7f"), dtype=torch.uint8)
        return send(group, output, given, *sizes)

    group_calls.all_to_all = damage
    try:
        average.start(list(tensors_of(rank, 0).items()), 0).wait()
        average._side.synchronize()
    finally:
        group_calls.all_to_all = send
    with pytest.raises(hp.CorruptPayload) as refused:
        average.raise_error()
    return str(refused.value)


def test_a_corrupt_payload_is_named_once_the_gpu_has_told_it(tmp_path: Path) -> None:
    told, said = run(_corrupted, 2, str(tmp_path))
    assert "from rank 1 of the group: it has refused the contribution of rank 0" in told
    assert "tensor 'a'" in said or "tensor 'b'" in said, said
    assert "from rank 0 of the group" in said


#: Bytes of a header: place, new value, and what the receiver says.
DAMAGES = {
    0: (0x41, "wire header: magic is 0x5041, expected 0x5048"),
    2: (9, "wire header: version is 9, expected 1"),
    3: (4, "wire header: flags is 0x4, expected only bits of 0xc3"),
    4: (77, "wire header: codec is 77, expected "),
    8: (7, "wire header: element count is "),
    18: (0xFF, "wire header: payload size is "),
    22: (1, "wire header: payload size is "),
    24: (1, "wire header: checksum is 0x1, expected 0, because the checksum flag is not set"),
    27: (1, "wire header: checksum is 0x1000000, expected 0, because the checksum flag is not set"),
    28: (1, r"wire header: dtype is 1 (float64), expected 0 (float32)"),
    29: (1, "wire header: the reserved byte is 0x1, expected 0"),
}


@training.in_process_group
def _refused_headers(rank: int, second: bool) -> list[str]:
    """The errors after rank 0 has damaged the header of its contribution to 'v', or of the average of 'w'."""
    send, said, calls = group_calls.all_to_all, [], [0]
    shapes = dict.fromkeys(("w", "v"), TensorShape(9000, torch.float32, 2))  # rank 0 owns w, rank 1 owns v
    try:
        for at, (value, _) in DAMAGES.items():
            average = GroupAverage(shapes, None, GroupOptions("onebit", "ps"), side=FakeGpuSide())

            def damage(group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
                calls[0] += 1
                if rank == 0 and calls[0] == 1 + second:
                    given.view(-1)[at] = value  # noqa: B023
                return send(group, output, given, *sizes)

            calls[0], group_calls.all_to_all = 0, damage
            generator = torch.Generator().manual_seed(rank)
            tensors = {name: torch.randn(9000, generator=generator) for name in shapes}
            average.start(list(tensors.items()), 0).wait()
            average._side.synchronize()
            if second and rank == 0:
                continue
            with pytest.raises(hp.CorruptPayload) as refused:
                average.state_dict()
            said.append(str(refused.value))
            with pytest.raises(hp.CorruptPayload):
                average.start(list(tensors.items()), 1)
            # What was refused is zeros: nothing of it reaches a parameter.
            assert not tensors["w" if second else "v"].any()
            assert tensors["v" if second else "w"].all()
    finally:
        group_calls.all_to_all = send
    return said


@pytest.mark.parametrize("second", [False, thorough(True)])
def test_a_gpu_checks_headers_as_the_processor_does(tmp_path: Path, second: bool) -> None:
    sender, receiver = run(_refused_headers, 2, str(tmp_path), second)
    for text, (_, expected) in zip(receiver, DAMAGES.values(), strict=True):
        assert f"tensor '{'w' if second else 'v'}', partition 0, from rank 0 of the group: {expected}" in text
    assert len(sender) == (0 if second else len(DAMAGES))
    for text in sender:
        assert "from rank 1 of the group: it has refused the contribution of rank 0 of the group" in text


@training.in_process_group
def _refused(rank: int) -> None:
    side = FakeGpuSide()
    shapes = {"m": TensorShape(400, torch.float32, 2, 20)}
    with pytest.raises(hp.Unsupported, match=r"codec powersgd on cpu: .* use another codec"):
        GroupAverage(shapes, None, GroupOptions("powersgd", min_compress_bytes=0), side=side)
    average = average_of(GroupOptions("onebit"), side)
    with pytest.raises(hp.InvalidArgument, match="is on meta; this compressed average takes tensors on cpu"):
        average.start([("a", torch.zeros(5000, device="meta"))], 0)


def test_unsupported_requests_are_refused_by_name(tmp_path: Path) -> None:
    run(_refused, 2, str(tmp_path))


def test_a_codec_that_merges_decoded_values_has_no_sums_of_hosts() -> None:
    codec = hipress.load_codec(SIGNSGD)
    with pytest.raises(hp.Unsupported, match="codec signsgd merges every rank's values as decoded from its message"):
        GroupOptions(codec, "hierarchical", ranks_per_host=1).check(["w"])


def test_a_model_on_several_devices_or_on_another_kind_is_refused() -> None:
    here, elsewhere = torch.device("cpu"), torch.device("meta")
    with pytest.raises(hp.Unsupported, match="'w' is on cpu and 'v' on meta"):
        side_for({"w": here, "v": elsewhere})
    with pytest.raises(hp.Unsupported, match="the model is on meta"):
        side_for({"v": elsewhere})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(hp.Unsupported, match="cuda:0 cannot be used"):
        GpuSide(torch.device("cuda", 0))


@training.in_process_group
def _group_that_moves(rank: int) -> str:
    def group() -> CompressingGroup:
        made = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit(block=64)", min_compress_bytes=4096))
        assert isinstance(made, CompressingGroup)
        return made

    def step(of: CompressingGroup, number: int) -> list[torch.Tensor]:
        tensors = tensors_of(rank, number)
        for name, tensor in tensors.items():
            with gradients(name):
                dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=of)
            of._average._side.synchronize()
        return list(tensors.values())

    def compare(numbers: range) -> None:
        for number in numbers:
            for wanted, given in zip(step(stays, number), step(moves, number), strict=True):
                assert torch.equal(wanted.view(torch.uint8), given.view(torch.uint8)), number

    stays, moves = group(), group()
    compare(range(2))
    side_for = compressing_group.side_for
    try:
        compressing_group.side_for = lambda _: FakeGpuSide()
        moves._device = torch.device("meta")  # as if the tensors so far had been elsewhere
        compare(range(2, 5))
        assert isinstance(moves._average._side, FakeGpuSide)
        before, after = stays.state_dict(), moves.state_dict()
        assert (before["steps"], before["tensors"]) == (after["steps"], after["tensors"])
        for key, states in before["states"].items():
            for state, values in states.items():
                np.testing.assert_array_equal(values, after["states"][key][state])
        assert moves.sent_bytes >= stays.sent_bytes > 0
        moves._device = torch.device("meta")
        with (
            pytest.raises(hipress.errors.Unsupported, match="give gradients on each device a group") as caught,
            gradients("other"),
        ):
            dist.all_reduce(torch.ones(5000), group=moves)
    finally:
        compressing_group.side_for = side_for
    return str(caught.value)


def test_a_group_of_the_backend_takes_its_states_to_a_gpu(tmp_path: Path) -> None:
    for text in run(_group_that_moves, 2, str(tmp_path)):
        assert "gradients on meta, and now gets 'other' on cpu" in text
