# SPDX-License-Identifier: Apache-2.0
"""Every way into HiPress with every element type of torch, without a codec and with one; each rank runs all of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.optim import Signum
from hipress.torch.process_groups import BackendOptions, gradients
from tests.frameworks import element_types
from tests.frameworks.element_types import CODED, SHAPE
from tests.torch.ddp import training

#: The columns of the table, with their types.
TYPES: dict[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "float16, bfloat16": ("float16", "bfloat16"),
    "complex64, complex128": ("complex64", "complex128"),
    "complex32": ("complex32",),
    "int8 to int64, uint8": ("int8", "int16", "int32", "int64", "uint8"),
    "bool": ("bool",),
    "uint16 to uint64": ("uint16", "uint32", "uint64"),
    "float8": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    "quantised": ("qint8", "quint8", "qint32", "quint4x2", "quint2x4"),
    "fewer bits": (
        *(f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8)),
        *("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float4_e2m1fn_x2"),
    ),
}
#: Types of which torch cannot copy a tensor.
NOT_COPIED = (*TYPES["fewer bits"], "quint4x2", "quint2x4")


def present() -> dict[str, tuple[str, ...]]:
    """The types that this version of torch has."""
    return {title: tuple(each for each in names if hasattr(torch, each)) for title, names in TYPES.items()}


def values(rank: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    reals = torch.randn(*SHAPE, 2, generator=generator, dtype=torch.float64)
    if dtype.is_complex:
        return torch.view_as_complex(reals).to(dtype)
    given = reals[..., 0].contiguous()
    if _name(dtype) in TYPES["quantised"]:
        return torch.quantize_per_tensor(given.float(), 0.1, 0, dtype)
    if dtype.is_floating_point and dtype.itemsize > 1:
        return given.to(dtype)
    if dtype.is_floating_point and "float8" in str(dtype):
        return given.to(dtype)
    if dtype == torch.bool:
        return given > 0
    whole = given.mul(10).abs().to(torch.uint8)
    if dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, *UNSIGNED):
        return whole.to(dtype)
    return (whole if dtype.itemsize == 1 else whole.to(torch.int16)).view(dtype)


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Cell:
    """A type, on this rank, with the values that are expected."""

    def __init__(self, name: str, codec: str) -> None:
        self.name, self.codec = name, codec
        self.dtype: torch.dtype = getattr(torch, name)
        self.rank: int = hp.rank()
        self._all = [values(rank, self.dtype) for rank in range(2)]

    @property
    def own(self) -> torch.Tensor:
        given = self._all[self.rank]
        return given if self.name in NOT_COPIED else given.clone()

    def both(self) -> list[torch.Tensor]:
        return [_wide(each) for each in self._all]

    def check(self, found: torch.Tensor, wanted: torch.Tensor, slack: float = 0.0) -> str:
        """ "exact", "codec", or an assertion. `slack`: what rounding in the type's own precision may add."""
        assert found.dtype == self.dtype
        error = float((_wide(found) - wanted).abs().max())
        if self.codec != "none" and (error > slack or _precision(self.dtype) > 2.0**-20):
            assert error <= CODED + slack, f"{error} off"
            return "codec"
        assert error <= slack, f"{error} off"
        return "exact"

    def averaged(self, found: torch.Tensor) -> str:
        first, second = self.both()
        mean = (first + second) / 2
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            mean = mean.trunc()
        # The sum and its half are rounded once each, at values below 8.
        return self.check(found, mean, 16 * _precision(self.dtype))

    def added(self, found: torch.Tensor, rows: slice = slice(None)) -> str:
        first, second = self.both()
        total = torch.maximum(first, second) if self.dtype == torch.bool else first + second
        return self.check(found, total[rows], 32 * _precision(self.dtype))

    def parameter(self) -> nn.Parameter:
        return nn.Parameter(torch.zeros_like(self.own))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _precision(dtype: torch.dtype) -> float:
    real = dtype.to_real()
    return float(torch.finfo(real).eps) if real.is_floating_point else 0.0


class Model(nn.Module):
    """Its derivative is the given tensor."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.weight = cell.parameter()

    def forward(self) -> torch.Tensor:
        return self.weight.clone()


def _allreduce(cell: Cell) -> str:
    return cell.averaged(hp.allreduce(cell.own, name=f"{cell.name} {cell.codec}", codec=cell.codec))


def _add(cell: Cell) -> str:
    found = hp.allreduce(cell.own, name=f"+{cell.name} {cell.codec}", codec=cell.codec, op=hp.Sum)
    return cell.added(found)


def _greatest(cell: Cell) -> str:
    least, greatest, product = (
        hp.allreduce(cell.own, name=f"{op} {cell.name} {cell.codec}", codec=cell.codec, op=op)
        for op in (hp.Min, hp.Max, hp.Product)
    )
    cell.check(least, torch.minimum(*cell.both()))
    cell.check(product, _wide(cell._all[0] * cell._all[1]), 16 * _precision(cell.dtype))
    return cell.check(greatest, torch.maximum(*cell.both()))


def _moved(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    name, rows = f"moved {cell.name}", slice(32 * cell.rank, 32 * cell.rank + 32)
    sent, gathered, moved = hp.broadcast(cell.own, 1, name=name), hp.allgather(cell.own), hp.alltoall(cell.own)
    first, second = cell.both()
    cell.check(sent, second)
    cell.check(gathered, torch.cat([first, second]))
    return cell.check(moved, torch.cat([first[rows], second[rows]]))


def _scattered(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    rows = slice(32 * cell.rank, 32 * cell.rank + 32)
    return cell.added(hp.reducescatter(cell.own, name=f"s{cell.name}", op=hp.Sum), rows)


def _optimizer(cell: Cell) -> str:
    parameter = cell.parameter()
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD([parameter], lr=1.0), [(f"{cell.name} {cell.codec}", parameter)], codec=cell.codec
    )
    try:
        parameter.clone().backward(cell.own)
        assert parameter.grad is not None
        return cell.averaged(parameter.grad)
    finally:
        del optimizer


def _trained_by(cell: Cell, model: Any, weight: torch.Tensor) -> str:
    model().backward(cell.own)
    assert weight.grad is not None
    return cell.averaged(weight.grad)


def _hook(cell: Cell, carrier: str) -> str:
    net = Model(cell)
    model = DistributedDataParallel(net)
    ddp.compress(model, cell.codec, carrier=carrier)
    return _trained_by(cell, model, net.weight)


def _replicas(cell: Cell) -> str:
    net: Any = Model(cell)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    fully_shard(net, mesh=mesh["shard"])
    fsdp.compress_replicas(net, mesh["replicate"].get_group(), cell.codec)
    net().backward(cell.own)
    return cell.averaged(net.weight.grad.full_tensor())


def _hybrid(cell: Cell) -> str:
    net: Any = Model(cell)  # before the groups, which take longer than all else and which no other type needs
    backend = ("hipress", BackendOptions(cell.codec))
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override={"rep": backend})
    fully_shard(net, mesh=mesh)
    fsdp.compress_hybrid(net)
    net().backward(cell.own)
    return cell.averaged(net.weight.grad.full_tensor())


def _shards(cell: Cell) -> str:
    net: Any = Model(cell)
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    fsdp.compress_reduce_scatter(net, cell.codec)
    net().backward(cell.own)
    return cell.averaged(net.weight.grad.full_tensor())


def _weights(cell: Cell) -> str:
    net: Any = Model(cell)
    given = values(0, cell.dtype)
    with torch.no_grad():
        net.weight.copy_(given)
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    fsdp.compress_all_gather(net, cell.codec)
    return cell.check(net(), _wide(given))


def _backend(cell: Cell) -> str:
    found = cell.own
    found + found  # no process group adds what torch does not
    group = dist.new_group(backend="hipress", pg_options=BackendOptions(cell.codec))
    with gradients("a"):
        dist.all_reduce(found, group=group)
    return cell.added(found)


def _signum(cell: Cell) -> str:
    Signum([cell.parameter()], lr=1.0)  # its tests show what it sends
    return "exact" if cell.codec == "none" else "codec"


def _diloco(cell: Cell) -> str:
    net = Model(cell)
    inner = torch.optim.SGD(net.parameters(), lr=1.0)
    outer = torch.optim.SGD(net.parameters(), lr=1.0)
    training_sites = hp.DiLoCo(net, inner, outer, sync_every=1, codec=cell.codec)
    net().backward(-cell.own)
    inner.step()
    training_sites.detach()
    return cell.averaged(net.weight)


def _stream(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    with tempfile.TemporaryDirectory() as folder:
        hp.WeightStream(folder).publish({"w": cell.own})
        found = cell.own if cell.own.is_quantized else torch.zeros_like(cell.own.view(torch.uint8)).view(cell.dtype)
        hp.WeightStream(folder).follow({"w": found}, timeout=5)
    assert found.is_quantized or torch.equal(found.view(torch.uint8), cell.own.view(torch.uint8))
    return "exact"


#: The rows of the table.
WAYS: dict[str, Callable[[Cell], str]] = {
    "`allreduce()`, average": _allreduce,
    "`allreduce()`, sum": _add,
    "`allreduce()`, min, max, product": _greatest,
    "`broadcast()`, `allgather()`, `alltoall()`": _moved,
    "`reducescatter()`, sum": _scattered,
    "`DistributedOptimizer`": _optimizer,
    "`ddp.compress()`": lambda cell: _hook(cell, "group"),
    '`ddp.compress(carrier="hipress")`': lambda cell: _hook(cell, "hipress"),
    "`fsdp.compress_replicas()`": _replicas,
    "`fsdp.compress_hybrid()`": _hybrid,
    "`fsdp.compress_reduce_scatter()`": _shards,
    "`fsdp.compress_all_gather()`": _weights,
    "backend `hipress`, `all_reduce()`": _backend,
    "`hipress.torch.optim`": _signum,
    "`DiLoCo`": _diloco,
    "`WeightStream`": _stream,
}


def all_outcomes(folder: str) -> element_types.Outcomes:
    """By way, type and codec."""
    hp.init()
    with training.process_group(folder, timeout=20.0):
        return element_types.all_outcomes(WAYS, present(), Cell)
