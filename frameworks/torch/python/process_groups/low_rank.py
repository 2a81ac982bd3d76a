# SPDX-License-Identifier: Apache-2.0
"""PowerSGD over a process group: the matrices of a batch as factors, which two all-reduces sum.

The definition, and where ranks add up: core/matrix/power_step.h. The left factors of a batch are one message, and so
are the right ones. All ranks get the same bits of a sum, as Gloo's all-reduce gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.group_calls import Group, Work
from hipress.torch.process_groups.states.residuals import Floats

_RESIDUAL, _FACTOR = "residual", "factor"
#: The role, in saved states, of a matrix that travels as factors.
_ROLE = "factors"


@dataclass(frozen=True)
class Matrix:
    """How a tensor travels as factors."""

    rows: int
    columns: int
    rank: int
    """Vectors of each factor."""
    error_feedback: bool
    warm_start: bool


def matrix_of(codec: _core.Codec, rows: int, count: int) -> Matrix | None:
    """How a tensor with `rows` rows and `count` elements travels with `codec`; None: the factors do not save enough."""
    assert codec.low_rank is not None
    most, ratio, error_feedback, warm_start = codec.low_rank
    columns = count // rows if rows else 0
    rank = min(most, rows, columns)
    if rank == 0 or rank * (rows + columns) * ratio > count:
        return None
    return Matrix(rows, columns, rank, error_feedback, warm_start)


@dataclass
class _Step:
    name: str
    how: Matrix
    matrix: Floats
    """This rank's values and residual; in the end the new residual."""
    left: Floats
    right: Floats
    result: torch.Tensor
    ranks: Floats
    """One value: how many ranks have a gradient. Without any the average is zeros, and the states stay."""


@dataclass
class FactorBatch:
    """The matrices of a batch on their way."""

    steps: list[_Step]
    factor: float
    """Of the sum over all ranks."""
    lefts: torch.Tensor
    """All left factors, one behind the other, and then the numbers of ranks with gradients."""
    rights: torch.Tensor
    work: Work = None


class LowRankAverage:
    """Averages the matrices of batches. Each of the three parts runs in a thread of its own.

    Arguments:
        exchange, collect: two groups of the same ranks, as Exchange has them.
    """

    def __init__(self, exchange: Group, collect: Group) -> None:
        self._exchange, self._collect = exchange, collect
        self._world: int = exchange.size()
        self._matrices: dict[str, Matrix] = {}
        self._states: dict[str, dict[str, Floats]] = {}
        #: Of the matrices of the current step: the states before it.
        self._before: dict[str, dict[str, Floats]] = {}
        #: Memory for the next step's matrices: fresh pages take longer than the product.
        self._spare: dict[str, Floats] = {}
        self.sent_bytes = 0
        """The bytes that a rank sends of the factors if all ranks form one ring."""

    def __contains__(self, name: str) -> bool:
        return name in self._matrices

    def add(self, name: str, how: Matrix) -> None:
        """From now on this tensor travels as factors."""
        self._matrices[name] = how

    # First thread.
    def start(self, named: Sequence[tuple[str, torch.Tensor]], step: int, factor: float) -> FactorBatch | None:
        """Starts the sum of the left factors of these flat tensors; None if there are none."""
        if not named:
            return None
        hows = [self._matrices[name] for name, _ in named]
        lefts = torch.zeros(sum(how.rank * how.rows for how in hows) + len(hows))
        rights = torch.zeros(sum(how.rank * how.columns for how in hows))
        steps = []
        for (name, tensor), how, left, ranks, right in zip(
            named,
            hows,
            lefts[: -len(hows)].split([how.rank * how.rows for how in hows]),
            lefts[-len(hows) :].split(1),
            rights.split([how.rank * how.columns for how in hows]),
            strict=True,
        ):
            kept = self._states.get(name, {})
            if _FACTOR in kept:
                right.copy_(torch.from_numpy(kept[_FACTOR]))
            matrix = self._spare.pop(name, None)
            if matrix is None:
                matrix = np.empty(how.rows * how.columns, np.float32)
            ranks.fill_(not _core.are_zeros(tensor.view(torch.uint8).numpy()))
            one = _Step(name, how, matrix, left.numpy(), right.numpy(), tensor, ranks.numpy())
            _core.low_rank_left(
                tensor.float().numpy(),
                kept.get(_RESIDUAL),
                (how.rows, how.columns),
                step=step,
                right=one.right,
                matrix=matrix,
                left=one.left,
            )
            steps.append(one)
        batch = FactorBatch(steps, factor, lefts, rights)
        batch.work = self._sum(self._exchange, lefts)
        return batch

    # Second thread.
    def go_on(self, batch: FactorBatch) -> None:
        """Waits for the sum of the left factors, and starts that of the right ones."""
        batch.work.wait()
        for one in batch.steps:
            _core.low_rank_right(one.matrix, (one.how.rows, one.how.columns), left=one.left, right=one.right)
        batch.work = self._sum(self._collect, batch.rights)

    # Third thread.
    def finish(self, batch: FactorBatch) -> bool:
        """Waits for that sum, and writes the averages and the states; returns whether all averages are finite."""
        batch.work.wait()
        finite = True
        for one in batch.steps:
            if one.ranks[0] == 0:
                self._spare[one.name] = one.matrix
                continue
            in_place = one.result.dtype == torch.float32
            output = one.result.numpy() if in_place else np.empty(one.matrix.size, np.float32)
            is_finite = _core.low_rank_result(
                one.matrix,
                (one.how.rows, one.how.columns),
                left=one.left,
                right=one.right,
                ranks=self._world,
                factor=batch.factor * self._world,
                output=output,
            )
            if not in_place:
                one.result.copy_(torch.from_numpy(output))
                is_finite = is_finite and bool(torch.isfinite(one.result).all())
            if is_finite:
                self._keep(one)
            else:
                self._spare[one.name] = one.matrix
            finite = finite and is_finite
        return finite

    def _keep(self, one: _Step) -> None:
        self._before[one.name] = self._states.get(one.name, {})
        states = {}
        if one.how.error_feedback:
            states[_RESIDUAL] = one.matrix
        else:
            self._spare[one.name] = one.matrix
        if one.how.warm_start:
            states[_FACTOR] = one.right.copy()
        self._states[one.name] = states

    def settle(self, discarded: bool) -> None:
        """As of LinkedAverage."""
        for name, before in self._before.items():
            after = self._states[name]
            if discarded:
                self._states[name] = before
            free = (after if discarded else before).get(_RESIDUAL)
            if free is not None:
                self._spare[name] = free
        self._before = {}

    def _sum(self, group: Group, values: torch.Tensor) -> Work:
        self.sent_bytes += 2 * (self._world - 1) * 4 * values.numel() // self._world
        return group_calls.all_reduce(group, values)

    def multiply(self, factor: float) -> None:
        """Multiplies the residuals: the unit of gradients has changed. Of right factors only the directions count."""
        for states in self._states.values():
            if _RESIDUAL in states:
                states[_RESIDUAL] *= np.float32(factor)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states: {"tensor\\nfactors\\nrows\\ncolumns": {state: values}}."""
        return {
            f"{name}\n{_ROLE}\n{self._matrices[name].rows}\n{self._matrices[name].columns}": {
                state: values.copy() for state, values in states.items()
            }
            for name, states in self._states.items()
        }

    def takes(self, key: str) -> bool:
        """As of LinkedAverage."""
        name, _, rows, columns = key.split("\n")
        how = self._matrices.get(name)
        return how is not None and (how.rows, how.columns) == (int(rows), int(columns))

    def checked(self, state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Floats]]:
        """What state_dict() gave of matrices that takes() knows, for adopt(). Raises InvalidArgument."""
        loaded = {}
        for text, values in state.items():
            name = text.split("\n")[0]
            how = self._matrices[name]
            arrays = {each: np.array(array, np.float32) for each, array in values.items()}
            sizes = {_RESIDUAL: how.rows * how.columns, _FACTOR: how.rank * how.columns}
            vectors, rest = divmod(arrays[_FACTOR].size, how.columns) if _FACTOR in arrays else (how.rank, 0)
            if vectors != how.rank and rest == 0:
                del arrays[_FACTOR]  # of another number of vectors: the warm start begins anew
            for each, array in arrays.items():
                if array.shape != (sizes.get(each),):
                    raise InvalidArgument(f"the state '{each}' of '{name}' does not have {sizes.get(each)} elements")
            loaded[name] = arrays
        return loaded

    def adopt(self, states: dict[str, dict[str, Floats]]) -> None:
        """Goes on from these."""
        self._states = states


def is_factors(key: str) -> bool:
    """Whether an entry of saved states is that of a matrix that travels as factors."""
    return key.split("\n")[1:2] == [_ROLE]


def mean_states(saved: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Floats]]:
    """The state that each rank of a job of any size gets, from the states of all ranks before: the residual is the mean
    of their residuals, and the right factor is the same on all ranks.
    """
    keys: Iterable[str] = dict.fromkeys(key for states in saved for key in states if is_factors(key))
    result: dict[str, dict[str, Floats]] = {}
    for key in keys:
        having = [states[key] for states in saved if key in states]
        result[key] = {}
        if _RESIDUAL in having[0]:
            total = np.sum([np.asarray(states[_RESIDUAL], np.float64) for states in having], axis=0)
            result[key][_RESIDUAL] = (total / len(saved)).astype(np.float32)
        if _FACTOR in having[0]:
            result[key][_FACTOR] = np.asarray(having[0][_FACTOR], np.float32)
    return result
