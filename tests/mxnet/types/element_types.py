# SPDX-License-Identifier: Apache-2.0
"""Every way into HiPress with every element type of MXNet, without a codec and with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.contrib.amp.amp import bfloat16

import hipress.mxnet as hp
from hipress.mxnet.optim import OneBitAdam
from tests.frameworks import element_types

#: The columns of the table, with their types.
TYPES: dict[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "float16": ("float16",),
    "int8, int32, int64, uint8": ("int8", "int32", "int64", "uint8"),
    "bool": ("bool",),
    "bfloat16": ("bfloat16",),
    "NumPy's others": ("int16", "uint16", "uint32", "uint64", "complex64", "complex128", "longdouble", "str"),
}


class Cell(element_types.Cell):
    def __init__(self, name: str, codec: str) -> None:
        super().__init__(name, codec, np.float32 if name == "bfloat16" else name, hp.rank())
        self.options = {"codec": codec, "min_compress_bytes": 0}

    @property
    def array(self) -> Any:
        if self.name == "bfloat16":
            return mx.nd.array(self.own).astype(bfloat16)
        return mx.nd.array(self.own, dtype=self.name)

    def check(self, found: Any, wanted: Any, slack: float = 0.0) -> str:
        assert str(np.dtype(found.dtype)) == self.name, f"the result is of type {found.dtype}"
        return super().check(found.asnumpy(), wanted, slack)

    def parameter(self) -> Any:
        """A parameter with this rank's values as its gradient."""
        own = self.array
        parameter = mx.gluon.Parameter("weight", shape=element_types.SHAPE, dtype=own.dtype)
        parameter.initialize(mx.init.Zero())
        parameter.data()._fresh_grad = True
        own.copyto(parameter.grad())
        return parameter

    def called(self, way: str) -> str:
        return f"{way} {self.name} {self.codec}"


def _allreduce(cell: Cell) -> str:
    return cell.averaged(hp.allreduce(cell.array, name=cell.called("average"), codec=cell.codec))


def _add(cell: Cell) -> str:
    return cell.added(hp.allreduce(cell.array, name=cell.called("sum"), codec=cell.codec, op=hp.Sum))


def _greatest(cell: Cell) -> str:
    return cell.greatest(
        *(
            hp.allreduce(cell.array, name=cell.called(str(op)), codec=cell.codec, op=op)
            for op in (hp.Min, hp.Max, hp.Product)
        )
    )


def _moved(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    own = cell.array
    return cell.moved(
        hp.broadcast(own, 1, name=cell.called("broadcast")),
        hp.allgather(own, name=cell.called("allgather")),
        hp.alltoall(own, name=cell.called("alltoall")),
    )


def _parameters(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    given = {cell.name: cell.array}
    hp.broadcast_parameters(given, 1)
    return cell.check(given[cell.name], cell.both[1])


def _scattered(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    return cell.averaged(hp.reducescatter(cell.array, name=cell.called("reducescatter")), cell.rows)


def _trainer(cell: Cell) -> str:
    parameter = cell.parameter()
    hp.DistributedTrainer([parameter], "sgd", **cell.options).allreduce_grads()
    return cell.averaged(parameter.grad())


def _kvstore_of_a_trainer(cell: Cell) -> str:
    parameter = cell.parameter()
    trainer = mx.gluon.Trainer([parameter], "sgd", kvstore="hipress", compression_params=cell.options)
    trainer.allreduce_grads()
    return cell.added(parameter.grad())


def _kvstore(cell: Cell) -> str:
    store = mx.kv.create("hipress")
    store.set_gradient_compression(cell.options)
    value = cell.array
    store.pushpull(cell.called("pushpull"), value)
    return cell.added(value)


def _optimizer(cell: Cell) -> str:
    gradient, weight = cell.array, mx.nd.zeros(element_types.SHAPE, dtype=cell.array.dtype)
    optimizer = hp.DistributedOptimizer(mx.optimizer.Test(), **cell.options)
    optimizer.idx2name[0] = cell.called("weight")
    optimizer.update(0, weight, gradient, mx.nd.zeros_like(weight))
    return cell.averaged(gradient)


def _onebit_adam(cell: Cell) -> str:
    OneBitAdam([cell.parameter()], freeze_step=1)
    return "exact" if cell.codec == "none" else "codec"  # its tests show what it sends


#: The rows of the table.
WAYS: dict[str, Callable[[Cell], str]] = {
    "`allreduce()`, average": _allreduce,
    "`allreduce()`, sum": _add,
    "`allreduce()`, min, max, product": _greatest,
    "`broadcast()`, `allgather()`, `alltoall()`": _moved,
    "`broadcast_parameters()`": _parameters,
    "`reducescatter()`, average": _scattered,
    "`DistributedTrainer`": _trainer,
    '`Trainer(kvstore="hipress")`': _kvstore_of_a_trainer,
    "kvstore `hipress`, `pushpull()`": _kvstore,
    "`DistributedOptimizer`": _optimizer,
    "`hipress.mxnet.optim`": _onebit_adam,
}


def all_outcomes() -> element_types.Outcomes:
    """By way, type and codec."""
    hp.init()
    found = element_types.all_outcomes(WAYS, TYPES, Cell)
    mx.nd.waitall()
    return found
