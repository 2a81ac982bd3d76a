# SPDX-License-Identifier: Apache-2.0
"""Broadcasts one rank's parameters to all ranks at the start."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import mxnet as mx
from mxnet.gluon.parameter import DeferredInitializationError, Parameter, ParameterDict

from hipress.errors import InvalidArgument
from hipress.mxnet.collectives import broadcast_


def broadcast_parameters(
    params: Mapping[str, mx.nd.NDArray] | Mapping[str, Parameter] | ParameterDict,
    root_rank: int = 0,
    prefix: str | None = None,
) -> None:
    """Gives every rank rank `root_rank`'s values, in place.

    Arguments:
        params: `net.collect_params()`, or a dict of arrays. A parameter whose shape is unknown before the first forward
            pass gets the root's values in that pass, when MXNet initialises it on every rank.
        root_rank: the rank that sends its values.
        prefix: prefix of the names in errors and traces.

    Every rank calls it with the same names.
    """
    if not isinstance(params, Mapping | ParameterDict):
        raise InvalidArgument(
            f"broadcast_parameters() takes a dict of arrays or net.collect_params(), not a {type(params).__name__}"
        )
    for name, value in sorted(params.items()):
        full_name = f"parameters.{prefix or ''}{name}"
        if not isinstance(value, Parameter):
            broadcast_(value, root_rank, full_name)
            continue
        try:
            array = value.data()
        except DeferredInitializationError:
            _broadcast_when_initialized(value, root_rank, full_name)
        else:
            broadcast_(array, root_rank, full_name)


def _broadcast_when_initialized(parameter: Parameter, root_rank: int, name: str) -> None:
    initialize = parameter._init_impl

    def initialize_and_broadcast(self: Parameter, *args: Any, **kwargs: Any) -> None:
        initialize(*args, **kwargs)
        broadcast_(self.data(), root_rank, name)

    parameter._init_impl = types.MethodType(initialize_and_broadcast, parameter)
