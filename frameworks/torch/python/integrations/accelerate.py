# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""One call for models that Hugging Face's Accelerate has prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from hipress.options.travel import AUTO
from hipress.torch import ddp
from hipress.torch.ddp.options import HookBesideCodec
from hipress.torch.integrations.saved_ranks import ranks_in, saved_ranks

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["compress"]


def compress(
    accelerator: Accelerator, model: torch.nn.Module, codec: str | None = None, **options: Unpack[HookBesideCodec]
) -> ddp.HookState:
    """Compresses the gradients of a model that `accelerator.prepare()` has returned.

    `accelerator.save_state()` and `load_state()` from then on save and load the codec states of all ranks. With one
    process nothing is compressed.

    Arguments: those of hipress.torch.ddp.compress() beside the accelerator. The loss scaler is the accelerator's.

    Raises the errors of hipress.torch.ddp.compress().
    """
    given: dict[str, Any] = dict(options)
    given.setdefault("scaler", accelerator.scaler)  # None without fp16
    if codec == AUTO and len(accelerator._optimizers) == 1:
        given.setdefault("optimizer", accelerator._optimizers[0].optimizer)
    state = ddp.compress(model, codec, **given)
    accelerator.register_for_checkpointing(_OfAllRanks(state))
    return state


class _OfAllRanks:
    """Accelerate writes what state_dict() returns on the main process. It calls it on all ranks."""

    def __init__(self, state: ddp.HookState) -> None:
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        return saved_ranks(self._state.states_of_all())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._state.load_states_of(ranks_in(state_dict))
