# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes in every parameter (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

from collections.abc import Iterable

import mxnet as mx
from mxnet.gluon.parameter import Parameter

from hipress import runtime
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.replicas import check_replicas


def check_replicas_after(
    step: int, named: Iterable[tuple[str, mx.nd.NDArray]], process_set: ProcessSet = global_process_set
) -> None:
    """Calls hipress.adapter.replicas.check_replicas() if it is time; only then it reads `named`."""
    interval = runtime.current().options.check_replicas
    if interval and step % interval == 0:
        check_replicas(((name, array.asnumpy()) for name, array in named), step, process_set)


def trained(parameters: Iterable[Parameter]) -> Iterable[tuple[str, mx.nd.NDArray]]:
    """The arrays of the parameters that have gradients. Others, as the running means of BatchNorm, are a rank's own."""
    return ((each.name, each.list_data()[0]) for each in parameters if each.grad_req != "null")
