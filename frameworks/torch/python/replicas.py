# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes of the parameters (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import torch

from hipress import runtime
from hipress.adapter import replicas
from hipress.adapter.process_sets import ProcessSet
from hipress.options.runtime import RuntimeOptions

Named = Iterable[tuple[str, torch.Tensor]]


def check_replicas(named_parameters: Named, step: int, process_set: ProcessSet) -> None:
    """See hipress.adapter.replicas."""
    values = ((name, _bytes(parameter).numpy()) for name, parameter in named_parameters)
    replicas.check_replicas(values, step, process_set)


class ReplicaCheck:
    """Compares the parameters of ranks that HiPress' engine may not connect, every few steps.

    Arguments:
        agree: raises Mismatch, on all ranks, with the first difference between the ranks' values.
        parameters: returns the tensors that are the same on all ranks between two steps, in one order.
        counted: what after() counts.
    """

    def __init__(
        self, agree: Callable[[Mapping[str, str]], None], parameters: Callable[[], Named], counted: str = "step"
    ) -> None:
        running = runtime.is_initialized()
        self._every = (runtime.current().options if running else RuntimeOptions.from_environment()).check_replicas
        self._agree, self._parameters = agree, parameters
        self._counted = counted
        self._last = 0

    def skip_to(self, step: int) -> None:
        """This rank has got the parameters of another one after this step."""
        self._last = step

    def after(self, step: int) -> None:
        """All ranks call it between step number `step`, counted from 1, and the next one. Raises Mismatch."""
        if self._every and step // self._every > self._last // self._every:
            self._last = step
            self._agree(
                {
                    f"parameter '{name}' after {self._counted} {step}": hashlib.blake2b(
                        _bytes(each).numpy().tobytes(), digest_size=16
                    ).hexdigest()
                    for name, each in self._parameters()
                }
            )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8).cpu()
