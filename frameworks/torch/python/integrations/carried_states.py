# SPDX-License-Identifier: Apache-2.0
"""The states of a replica's codecs, while the group of replicas changes. No other replica takes part.

A residual is a part of a sum that the trainer divides by the number of replicas that take part in the step. When this
number changes, residuals are multiplied by the new number divided by the old one: the model gets as much as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hipress.errors import InvalidArgument
from hipress.log import logger
from hipress.torch.process_groups import CompressingGroup, GroupOptions
from hipress.torch.process_groups.states.residuals import RESIDUAL
from hipress.torch.states.state_sum import check_sum, with_sum

#: As CompressingGroup.kept() gives them.
States = dict[str, dict[str, Any]]


class CarriedStates:
    """Takes the states of codecs from each group to the next one.

    Steps have the trainer's numbers. A step that was not applied has the same number as the next one. None: nobody
    tells the number, and all steps count.
    """

    def __init__(self) -> None:
        #: Of gradients that the present group has not declared.
        self._waiting: States = {}
        #: Sums of the states' unit are divided by so many; 0: there are no states.
        self._participants = 0
        #: The step of the last average.
        self._at: int | None = None
        #: The step in which the states began to wait, until the next average.
        self._since: int | None = None
        #: Whose states wait; empty: this replica's.
        self._owner = ""
        #: How many values were dropped, because other replicas may have got a part of them.
        self.dropped = 0

    def leave(self, group: CompressingGroup, step: int | None) -> None:
        """The group ends, before step `step`."""
        self._look(step, "")
        self._waiting.update(group.leave(counted=self._counts(step)))
        self._since = step

    def before(self, group: CompressingGroup, step: int | None, participants: int, owner: str) -> None:
        """An average of the group begins. All of its ranks give the same step, and the same number of participants.

        `owner`: the name of this replica.
        """
        self._look(step, owner)
        self._since, self._at = None, step
        group.first_step = step or 0
        factor = participants / self._participants if self._participants else 1.0
        self._participants = participants
        if factor != 1.0:
            self._waiting = _multiplied(self._waiting, factor)
            kept = group.kept()
            if kept:
                group.carry(_multiplied(kept, factor))
        self.adopt(group)

    def adopt(self, group: CompressingGroup) -> None:
        """The group goes on with what waits for it."""
        own = {key: states for key, states in self._waiting.items() if _name(key) in group.declared}
        if own:
            group.carry({**group.kept(), **own})
            for key in own:
                del self._waiting[key]

    def state_dict(self, group: CompressingGroup | None, step: int | None, owner: str) -> dict[str, Any]:
        """All states of this replica. Between two steps only."""
        states = {**self._waiting, **({} if group is None else group.kept(counted=self._counts(step)))}
        tensors = {
            key: {name: torch.from_numpy(np.array(values, np.float32)) for name, values in each.items()}
            for key, each in states.items()
        }
        number = -1 if step is None else step
        return with_sum({"owner": owner, "step": number, "participants": self._participants, "states": tensors})

    def load_state_dict(self, group: CompressingGroup | None, state: Mapping[str, Any], owner: str) -> None:
        """Goes on from what state_dict() returned on this replica. `owner`: empty if it is not known yet.

        What another replica holds back is its own, and this replica takes none of it. Raises InvalidArgument.
        """
        if not {"owner", "step", "participants", "states"} <= set(state):
            raise InvalidArgument(f"the state has the keys {sorted(state)}, which no CompressedGroup saved")
        check_sum(state)
        if owner and state["owner"] != owner:
            return
        if group is not None:
            group.carry({})
        self._waiting = {
            key: {name: np.array(values, np.float32) for name, values in each.items()}
            for key, each in state["states"].items()
        }
        self._participants, self._owner = int(state["participants"]), str(state["owner"])
        self._since = self._at = None
        if int(state["step"]) >= 0:
            self._since = int(state["step"])

    def _counts(self, step: int | None) -> bool:
        return step is None or step != self._at

    def _look(self, step: int | None, owner: str) -> None:
        """Drops what waits if it does not belong to the model that this replica has now."""
        if owner and self._owner not in ("", owner):
            self._drop(f"they are of replica '{self._owner}', and this is '{owner}'")
        elif self._since is not None and step is not None and step != self._since:
            self._drop(
                f"this replica was in step {self._since} and has the model of step {step} from another one, which may "
                "have got a part of them"
            )
        if owner:
            self._owner = ""

    def _drop(self, reason: str) -> None:
        count = sum(len(states[RESIDUAL]) for states in self._waiting.values() if RESIDUAL in states)
        if count:
            logger().warning("dropped residuals of %d values: %s", count, reason)
        self.dropped += count
        self._waiting, self._since = {}, None


def options_for(options: GroupOptions, replicas: int) -> GroupOptions:
    """Of a group of so many replicas. One alone has nothing to send, so it loses nothing: its next gradients get its
    residuals."""
    return options if replicas > 1 else GroupOptions("none", scaler=options.scaler)


def _name(key: str) -> str:
    return key.split("\n")[0]


def _multiplied(states: States, factor: float) -> States:
    result = {key: dict(each) for key, each in states.items()}
    for each in result.values():
        if RESIDUAL in each:
            each[RESIDUAL] = np.asarray(each[RESIDUAL]) * np.float32(factor)
    return result
