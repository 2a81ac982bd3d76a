# SPDX-License-Identifier: Apache-2.0
"""Sends a trainer's optimizer from one rank to all. Arrays travel as arrays, all else as plain values; no pickle."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np

from hipress import runtime
from hipress.adapter.objects import receive_plain, send_plain
from hipress.errors import InvalidArgument, Unsupported
from hipress.mxnet.collectives import broadcast_

_WHAT, _LABEL = "broadcast_optimizer_state()", "optimizer_state"
#: Attributes that each rank keeps: its parameters, and a reference to another attribute's dictionary.
_OWN = ("param_dict", "_index_update_count")


def broadcast_optimizer_state(trainer: mx.gluon.Trainer, root_rank: int = 0) -> None:
    """Gives every rank's trainer rank `root_rank`'s optimizer: its options, step counts and momenta.

    All ranks then have the same bits: each keeps its own optimizer and learning-rate scheduler objects, which get the
    root's values. Values must be dense arrays or plain values (None, bool, int, float, str, bytes, list, tuple, dict).
    Nothing is unpickled.

    Raises InvalidArgument if the ranks' optimizers or schedulers are of different classes; Unsupported, on every rank,
    with the first value of another type; CorruptPayload if the state does not come from that rank.
    """
    if not trainer._kv_initialized:
        trainer._init_kvstore()
    if trainer._params_to_init:
        trainer._init_params()
    if trainer._update_on_kvstore:
        raise Unsupported(f"{_WHAT}: this trainer's kvstore has the optimizer; give Trainer update_on_kvstore=False")
    arrays: list[tuple[str, mx.nd.NDArray]] = []
    if runtime.rank() == root_rank:

        def encoded(value: Any, where: str) -> Any:
            return _encoded(value, where, arrays)

        send_plain(_described(trainer), root_rank, _LABEL, _WHAT, encoded, "trainer")
        _broadcast(arrays, root_rank)
        return
    received = receive_plain(root_rank, _LABEL, _WHAT, lambda described: _made(described, arrays))
    _broadcast(arrays, root_rank)
    _take(trainer._optimizer, received["optimizer"], "optimizer", root_rank)
    trainer._optimizer._set_current_context(0)
    for updater in trainer._updaters:
        updater.states = received["states"]
        updater.states_synced = dict.fromkeys(updater.states, False)  # MXNet then copies them to the parameters' device


def _described(trainer: mx.gluon.Trainer) -> dict[str, Any]:
    return {"states": trainer._updaters[0].states, "optimizer": _attributes(trainer._optimizer)}


def _attributes(thing: Any) -> dict[str, Any]:
    """The attributes of an optimizer or scheduler, and its class."""
    own = {name: value for name, value in vars(thing).items() if name not in _OWN and not name.startswith("_hipress")}
    schedulers = {name: value for name, value in own.items() if isinstance(value, mx.lr_scheduler.LRScheduler)}
    return {
        "class": _class_of(thing),
        "values": {name: value for name, value in own.items() if name not in schedulers},
        "schedulers": {name: _attributes(value) for name, value in schedulers.items()},
    }


def _take(own: Any, described: dict[str, Any], what: str, root_rank: int) -> None:
    """Sets the attributes of `own` to the values that _attributes() has described."""
    if described["class"] != _class_of(own):
        raise InvalidArgument(
            f"{_WHAT}: the {what} of rank {root_rank} is a {described['class']}, that of rank {runtime.rank()} is a "
            f"{_class_of(own)}. All ranks must make the same one"
        )
    for name, scheduler in described["schedulers"].items():
        _take(getattr(own, name, None), scheduler, f"{what}'s {name}", root_rank)
    for name, value in described["values"].items():
        setattr(own, name, value)


def _class_of(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _encoded(value: Any, where: str, arrays: list[tuple[str, mx.nd.NDArray]]) -> Any:
    if not isinstance(value, mx.nd.NDArray) or value.stype != "default":
        return None
    arrays.append((where, value.as_in_context(mx.cpu())))
    return {"name": where, "dtype": np.dtype(value.dtype).name, "shape": list(value.shape)}


def _made(described: Any, arrays: list[tuple[str, mx.nd.NDArray]]) -> mx.nd.NDArray:
    array = mx.nd.empty(tuple(described["shape"]), dtype=described["dtype"])
    arrays.append((described["name"], array))
    return array


def _broadcast(arrays: list[tuple[str, mx.nd.NDArray]], root_rank: int) -> None:
    for where, array in arrays:
        broadcast_(array, root_rank, f"{_LABEL}.{where}")
    for _, array in arrays:
        array.wait_to_read()
