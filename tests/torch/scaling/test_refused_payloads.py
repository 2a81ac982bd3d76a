# SPDX-License-Identifier: Apache-2.0
"""On a GPU a refused payload changes no parameter if the way in has the loss scaler: the average is NaN, the scaler
leaves the step out, and the next call raises the error. Here on a stand-in for the driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress
import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.process_groups import BackendOptions, GroupAverage, GroupOptions, group_calls
from hipress.torch.process_groups.dtypes import shape_of
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import end, run
from tests.torch.scaling.stand_in import on_a_stand_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _ranks_of_their_own() -> Iterator[None]:
    """torch keeps the frames of an error in backward, and with them a GradScaler, which other tests would find."""
    yield
    end()


_Way = tuple[nn.Module, Any]


def _linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(40, 200)


def _hook(scaler: Any) -> _Way:
    model = DistributedDataParallel(_linear(), gradient_as_bucket_view=True)
    return model, ddp.compress(model, "onebit", topology="ps", scaler=scaler)


def _replicas(scaler: Any) -> _Way:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("shard", "replicate"))
    model = fully_shard(_linear(), mesh=mesh["shard"])
    group = mesh["replicate"].get_group()
    return model, fsdp.compress_replicas(model, group, "onebit", topology="ps", scaler=scaler)


def _backend(scaler: Any) -> _Way:
    options = BackendOptions("onebit", scaler=scaler)
    mesh = init_device_mesh(
        "cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override={"rep": ("hipress", options)}
    )
    model = fully_shard(_linear(), mesh=mesh)
    return model, fsdp.compress_hybrid(model)


def _scatter(scaler: Any) -> _Way:
    model = fully_shard(_linear(), mesh=init_device_mesh("cpu", (2,)))
    return model, fsdp.compress_reduce_scatter(model, "terngrad", scaler=scaler)


_WAYS: dict[str, Callable[[Any], _Way]] = {
    "hook": _hook,
    "replicas": _replicas,
    "backend": _backend,
    "reduce-scatter": _scatter,
}
_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1),
}


class _Damage:
    """Changes bytes of what this rank sends. The averages are made within it, as they keep the collective that they
    call."""

    def __init__(self) -> None:
        self._send, self._calls_left = group_calls.all_to_all, 0
        self._patch = mock.patch.object(group_calls, "all_to_all", self._damage)

    def __enter__(self) -> _Damage:
        self._patch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._patch.stop()

    def begin(self, at: int = 0, call: int = 1, length: int = 1) -> None:
        """Of the collective number `call` from now on."""
        self._at, self._calls_left, self._length = at, call, length

    def _damage(self, group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
        self._calls_left -= 1
        if self._calls_left == 0:
            given = given.clone()  # the sender's own values stay
            given.view(-1)[self._at : self._at + self._length] = 0xF1
        return self._send(group, output, given, *sizes)


def _local(tensor: Any) -> torch.Tensor:
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor).detach()
    return found


def _parameters(model: nn.Module) -> list[torch.Tensor]:
    return [_local(each).clone() for each in model.parameters()]


@training.in_process_group
def _trained(rank: int, *case: Any) -> tuple[bool, bool, float, str]:
    with _Damage() as damage:
        return _train(rank, damage, *case)


def _train(
    rank: int, damage: _Damage, way: str, optimizer_kind: str, hands_over: bool
) -> tuple[bool, bool, float, str]:
    """Of a step with a refused payload: whether parameters stay, whether all are finite, and the loss scale after it;
    and the error that then comes."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with on_a_stand_in() as sides:
        model, state = _WAYS[way](scaler if hands_over else lambda: 1024.0)
    optimizer = _OPTIMIZERS[optimizer_kind](model.parameters())

    def loss(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        made: torch.Tensor = scaler.scale(model(training.batch(rank, step)[0]).square().mean())
        return made

    def step(number: int) -> None:
        loss(number).backward()
        for side in sides:
            side.synchronize()
        scaler.step(optimizer)
        scaler.update()

    step(0)
    assert scaler.get_scale() == 1024.0
    before = _parameters(model)
    if rank == 0:
        damage.begin()
    step(1)
    after = _parameters(model)
    stay = all(map(torch.equal, before, after))
    finite = all(bool(torch.isfinite(each).all()) for each in after)
    said = ""
    again = loss(2)
    if way == "reduce-scatter" and rank == 0:  # only the receiver knows it, and its error ends the step
        return stay, finite, scaler.get_scale(), said
    with pytest.raises(hp.CorruptPayload) as refused:
        again.backward()
    del state
    return stay, finite, scaler.get_scale(), str(refused.value)


_CASES = [
    *(thorough(way, "AdamW") if way == "backend" else (way, "SGD") for way in _WAYS),
    ("hook", "AdamW"),
    thorough("backend", "SGD"),
    thorough("replicas", "AdamW"),
    thorough("reduce-scatter", "AdamW"),
]


@pytest.mark.parametrize(("way", "optimizer"), _CASES)
def test_a_scaler_that_was_handed_over_leaves_the_step_out(tmp_path: Path, way: str, optimizer: str) -> None:
    for rank, (stay, finite, scale, said) in enumerate(run(_trained, 2, str(tmp_path), way, optimizer, True)):
        assert stay
        assert finite
        assert scale == 512.0
        assert "of the group" in said or (way == "reduce-scatter" and rank == 0)


@pytest.mark.parametrize("way", ["hook", *map(thorough, [way for way in _WAYS if way != "hook"])])
def test_without_a_scaler_the_average_is_zeros(tmp_path: Path, way: str) -> None:
    """NaN would destroy the parameters. They move once, by the momentum and the weight decay."""
    for rank, (stay, finite, scale, said) in enumerate(run(_trained, 2, str(tmp_path), way, "SGD", False)):
        assert not stay
        assert finite
        assert scale == 1024.0
        assert "of the group" in said or (way == "reduce-scatter" and rank == 0)


def _scaler() -> torch.amp.GradScaler:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.ones(()))
    return scaler


def _equal(before: Any, after: Any) -> list[bool]:
    return [bool((values == after[key][name]).all()) for key in before for name, values in before[key].items()]


#: Codec; the first byte of damage, in which collective, and of how many bytes: in a header, or behind it.
_PLACES = {
    "header": ("onebit", 0, 1, 1),
    "header of the average": ("onebit", 0, 2, 1),
    "exact": ("none", 0, 1, 1),
    "exact average": ("none", 0, 2, 1),
    "payload": ("topk(ratio=0.05)", 36, 1, 8),
    "payload of the average": ("topk(ratio=0.05)", 36, 2, 8),
}
_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex32, torch.complex64]
_SHAPES = dict.fromkeys(("w", "v"), (90, 100))


@training.in_process_group
def _averaged(rank: int, *case: Any) -> dict[str, tuple[list[float], list[bool]]]:
    with _Damage() as damage:
        return _average(rank, damage, *case)


def _average(rank: int, damage: _Damage, place: str, dtype: torch.dtype) -> dict[str, tuple[list[float], list[bool]]]:
    """By the kind of scaler: the shares of values that are NaN and of those that are zeros, of all tensors; and of each
    state whether it is that of before the step."""
    codec, at, call, length = _PLACES[place]
    found = {}
    off = torch.amp.GradScaler("cpu", enabled=False)
    for kind, scaler in (("scaler", _scaler()), ("function", lambda: 4.0), ("off", off)):
        tensors = {name: torch.empty(shape, dtype=dtype) for name, shape in _SHAPES.items()}
        texts = {"w": codec, "v": "onebit" if codec == "none" else codec}  # rank 0 owns w, rank 1 owns v
        how = GroupOptions("none", "ps", codec_for=texts, scaler=scaler)
        shapes = {name: shape_of(each) for name, each in tensors.items()}
        average = GroupAverage(shapes, None, how, side=FakeGpuSide())

        def step(number: int) -> torch.Tensor:
            for each in tensors.values():  # noqa: B023
                each.copy_(torch.randn(each.shape, dtype=torch.complex64 if dtype.is_complex else torch.float32))
            average.start(list(tensors.items()), number).wait()  # noqa: B023
            average._side.synchronize()  # noqa: B023
            reals = [torch.view_as_real(each) if dtype.is_complex else each for each in tensors.values()]  # noqa: B023
            return torch.cat([each.reshape(-1) for each in reals])

        assert torch.isfinite(step(0)).all()
        before = average.state_dict()
        if rank == 0:
            damage.begin(at, call, length)
        values = step(1)
        with contextlib.suppress(hp.CorruptPayload):
            average.state_dict()
        shares = [float(values.isnan().float().mean()), float((values == 0).float().mean())]
        found[kind] = shares, _equal(before, average.state_dict())
        dist.barrier()
    return found


@pytest.mark.parametrize(
    ("place", "dtype"),
    [
        *(("header", dtype) for dtype in _DTYPES),
        *(thorough(place, dtype) for place in list(_PLACES)[1:] for dtype in _DTYPES[1:]),
        *((place, torch.float32) for place in list(_PLACES)[1:]),
    ],
)
def test_the_refused_average_is_not_finite_in_every_type(tmp_path: Path, place: str, dtype: torch.dtype) -> None:
    of_average = "average" in place
    for rank, found in enumerate(run(_averaged, 2, str(tmp_path), place, dtype)):
        (nans, zeros), states = found["scaler"]
        if of_average and rank == 0:  # it has sent the average, and has it
            assert nans == 0.0
            continue
        refused = nans
        assert 0.2 < refused < 0.6
        assert states
        assert all(states)
        for kind in ("function", "off"):
            (nans, zeros_instead), _ = found[kind]
            assert nans == 0.0
            assert zeros_instead - zeros > 0.8 * refused


_PICKY = """
void PickyEncode(float* gradient, uint8* compressed) {
    float* greatest = agree(reduce_blocks(map(gradient, abs), 0.0, max, 256), max);
    int8* level = map(gradient, spread(greatest, 256), [&](float x, float g) -> int8 { return x > g * 0.5; });
    compressed = concat(greatest, add(level, 1));
}

void PickyDecode(uint8* compressed, float* gradient) {
    extract(compressed, float greatest[blocks(gradient.size, 256)], int8 level[gradient.size]);
    require(reduce(greatest, 0.0, max) < 100.0);
    gradient = map(level, spread(greatest, 256), [&](int8 l, float g) -> float { return l * g; });
}
"""


@training.in_process_group
def _summed(rank: int, folder: str) -> list[torch.Tensor]:
    program = Path(folder) / f"picky{rank}" / "picky.cll"
    program.parent.mkdir()
    program.write_text(_PICKY)
    codec = hipress.load_codec(program)
    found = []
    for scaler in (_scaler(), lambda: 4.0):
        tensor = torch.randn(60, 100)
        how = GroupOptions(codec, "ps", scaler=scaler)
        average = GroupAverage({"w": shape_of(tensor)}, None, how, side=FakeGpuSide())
        average.start([("w", tensor)], 0).wait()
        average._side.synchronize()
        average.raise_error()
        assert torch.isfinite(tensor).all()
        assert tensor.any()
        tensor = torch.randn(60, 100) * 1000
        average.start([("w", tensor)], 1).wait()
        average._side.synchronize()
        with pytest.raises(hp.CorruptPayload, match="the requirement in line 10 does not hold"):
            average.raise_error()
        found.append(tensor)
    return found


def test_a_refused_sum_is_not_finite_either(tmp_path: Path) -> None:
    for scaled, plain in run(_summed, 2, str(tmp_path), str(tmp_path)):
        assert scaled.isnan().all()
        assert not plain.any()
