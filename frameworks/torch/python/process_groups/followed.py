# SPDX-License-Identifier: Apache-2.0
"""All-reduces of a group itself that somebody wants to know the end of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch

from hipress.torch.process_groups.group_calls import Work
from hipress.torch.process_groups.stage import Stage

#: Called with the result of an all-reduce, or None if it has failed.
Ended: TypeAlias = "Callable[[torch.Tensor | None], None] | None"


@dataclass
class _Started:
    work: Work
    result: torch.futures.Future[torch.Tensor]
    ended: Ended


class Followed:
    """Completes futures in a thread of its own.

    A callback in Python would run on Gloo's thread, which needs Python's lock to free the callback; a program that ends
    its group right after the last step holds this lock while it waits for that thread.
    """

    def __init__(self, name: str) -> None:
        self._ending: Stage[_Started] = Stage(name, _end)

    def close(self) -> None:
        """Ends the thread, when what has started is done."""
        self._ending.close()

    def future(self, work: Work, tensor: torch.Tensor, ended: Ended) -> torch.futures.Future[torch.Tensor]:
        """A future of the all-reduce of this tensor alone. `ended` is called before it is done."""
        if tensor.is_cuda:  # NCCL's futures run no Python on a thread that ends with the group
            summed: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: _value(done, ended))
            return summed
        result: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._ending.put(_Started(work, result, ended))
        return result


def _end(started: _Started) -> None:
    try:
        started.work.wait()
        started.result.set_result(_value(started.work.get_future(), started.ended))
    except RuntimeError as error:
        if started.ended is not None:
            started.ended(None)
        started.result.set_exception(error)  # type: ignore[arg-type]


def _value(done: torch.futures.Future[list[torch.Tensor]], ended: Ended) -> torch.Tensor:
    (tensor,) = done.value()
    if ended is not None:
        ended(tensor)
    return tensor
