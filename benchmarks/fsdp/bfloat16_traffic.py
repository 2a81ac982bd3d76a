# SPDX-License-Identifier: Apache-2.0
"""FSDP2's own collectives with values of half the width, as with `MixedPrecisionPolicy(param_dtype=torch.bfloat16)`.

The passes still compute in float32: processors without bfloat16 instructions multiply matrices of it many times slower,
which would hide the time of the traffic.
"""

from __future__ import annotations

import datetime
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class _InFloat32(dist.Work):
    """A gather on its way, whose wait widens the values."""

    def __init__(self, work: Any, values: torch.Tensor, output: torch.Tensor) -> None:
        super().__init__()
        self._work, self._values, self._output = work, values, output

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """See torch's Work."""
        self._work.wait()
        self._output.copy_(self._values)
        return True


class _Gather(AllGather):
    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """See torch's Comm."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> Any:
        """See torch's AllGather."""
        values = torch.empty(output_tensor.shape, dtype=torch.bfloat16)
        work = _all_gather(values, input_tensor.to(torch.bfloat16), group=group, async_op=True)
        return _InFloat32(work, values, output_tensor)


class _Scatter(ReduceScatter):
    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """See torch's Comm."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        """See torch's ReduceScatter."""
        values = torch.empty(output_tensor.shape, dtype=torch.bfloat16)
        _reduce_scatter(values, input_tensor.to(torch.bfloat16), op=op, group=group)
        output_tensor.copy_(values)


def send_bfloat16(model: torch.nn.Module) -> None:
    """All units of a sharded model send bfloat16 from now on."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(_Gather())
            module.set_custom_reduce_scatter(_Scatter())
