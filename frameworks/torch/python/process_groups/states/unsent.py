# SPDX-License-Identifier: Apache-2.0
"""What an earlier job's codecs held back, and what the tensors' codecs here cannot send: it joins the next gradients.

A job may go on with another codec for a tensor, or with none. Then no codec here has the residual, but no part of a
gradient may be lost: the values are added to the tensor's next gradient, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from hipress.torch.process_groups.side import Side
from hipress.torch.process_groups.states.residuals import Floats, key_text

#: Roles in saved states. A worker's values join the gradient of its rank.
OF_GRADIENT = "unsent"
#: An aggregator's values join the average, or the sum, of all ranks.
OF_AVERAGE = "unsent average"
ROLES = (OF_GRADIENT, OF_AVERAGE)


class Unsent:
    """Such values of one rank. They stay until a step that counts has sent them."""

    def __init__(self, side: Side) -> None:
        self._side = side
        #: By tensor and role, for all elements of the tensor.
        self._values: dict[tuple[str, str], torch.Tensor] = {}
        #: Those that the current step sends.
        self._sent: set[tuple[str, str]] = set()
        #: Whether the averages of that step are finite.
        self._is_finite = True

    def __bool__(self) -> bool:
        return bool(self._values)

    def are_of(self, names: Collection[str]) -> bool:
        """Whether there are values of one of these tensors."""
        return any(name in names for name, _ in self._values)

    def join(self, named: Sequence[tuple[str, torch.Tensor]], scale: float | torch.Tensor, factor: float) -> None:
        """Adds the values to these flat gradients, in place.

        A gradient of zeros gets none: if no rank has another one, nobody uses the average.

        Arguments:
            scale: of the loss.
            factor: of the sum over all ranks.
        """
        if isinstance(scale, torch.Tensor):
            scale = scale.to(self._side.device)
        for name, gradient in named:
            for role in ROLES:
                values = self._values.get((name, role))
                if values is None or (name, role) in self._sent or not gradient.any():
                    continue
                share = 1.0 if role == OF_GRADIENT else 1 / factor
                gradient.add_((values * (scale * share)).to(gradient.dtype))
                self._sent.add((name, role))

    def look(self, changes: Any) -> None:
        """Before the step of `changes` ends. It waits for a GPU if the step sends values."""
        if not self._sent:
            return
        verdict = torch.zeros(1, device=self._side.device)
        self._side.write_verdict(verdict, changes)
        self._side.synchronize()
        self._is_finite = not verdict.item()

    def settle(self, discarded: bool) -> None:
        """After look(), at the step's end. `discarded`: the host knows that the step does not count."""
        if self._is_finite and not discarded:
            for key in self._sent:
                del self._values[key]
        self._sent.clear()

    def state_dict(self) -> dict[str, dict[str, Floats]]:
        """Copies of all values, as Residuals.state_dict() gives them."""
        return {
            key_text(name, role, 0, values.numel()): {"residual": values.cpu().numpy().copy()}
            for (name, role), values in self._values.items()
        }

    def adopt(self, values: Mapping[tuple[str, str], Floats]) -> None:
        """Goes on from these, by tensor and role. Between two steps only."""
        self._values = {key: torch.from_numpy(each).to(self._side.device) for key, each in values.items()}
        self._sent.clear()
