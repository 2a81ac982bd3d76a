# SPDX-License-Identifier: Apache-2.0
"""A model that only one process trains, without DistributedDataParallel: nothing is averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hipress.log import logger
from hipress.torch.ddp.plain import Plain
from hipress.torch.process_groups.options import GroupOptions

_said: set[str] = set()


class Alone(Plain):
    """Keeps what a checkpoint of one process has, so that scripts for any number of processes need no `if`."""

    def __init__(self) -> None:
        super().__init__(None)
        self._states: dict[str, Any] = {}
        _say_once(
            "this process is the only rank, and no DistributedDataParallel wraps the model: hipress.torch.ddp has no "
            "gradients to compress"
        )

    def change(self, options: GroupOptions) -> None:
        """See CarrierOf: nothing travels."""

    def state_dict(self) -> dict[str, Any]:
        """See CarrierOf."""
        return self._states

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See CarrierOf."""
        self._states = dict(state)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """See CarrierOf."""
        if len(saved) == 1:
            self.load_state_dict(saved[0])
        elif any(saved):
            _say_once(
                f"the checkpoint has codec states of {len(saved)} ranks, and this process trains alone without "
                "DistributedDataParallel: what they held back is left out of its gradients"
            )

    def codec_of(self, name: str) -> str:
        """See CarrierOf: nothing travels."""
        return "none"

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """See CarrierOf: nothing travels."""
        return ()

    @property
    def sent_bytes(self) -> int:
        """See CarrierOf."""
        return 0

    def close(self) -> None:
        """See CarrierOf."""


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        logger().warning("%s", text)
