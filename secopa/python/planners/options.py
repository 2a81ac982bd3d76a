# SPDX-License-Identifier: Apache-2.0
"""The options of planners: allowed codecs and topologies, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.secopa.models.linked_gradients import linked_tensors
from hipress.secopa.plan.choice import RAW
from hipress.secopa.profile.gradients import Gradient
from hipress.secopa.profile.profile import Profile


@dataclass(frozen=True)
class PlanningOptions:
    """By default a planner may use every codec of the profile, and it searches for the shortest step."""

    codecs: tuple[str, ...] | None = None
    """Allowed codecs; None: all codecs of the profile. A planner may always leave a gradient uncompressed."""
    codecs_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Pairs of a pattern such as "*.bias" and the codecs of matching gradients. The first match counts. A pair without
    codecs leaves the gradients uncompressed."""
    topologies: tuple[str, ...] = ()
    """Allowed topologies; empty: the topologies that suit the cluster."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """Smaller gradients stay uncompressed. Most of them are biases and norms: they save few bytes and need
    precision."""
    max_relative_error: float | None = None
    """Limit of ‖x − x'‖ / ‖x‖ of all gradients together after one encoding; None: no limit."""
    max_memory_bytes: int | None = None
    """Limit of staging and states of one rank, by the formulas of docs/algorithms.md; None: no limit."""
    min_gain: float = 0.05
    """The smallest share of a step that compression must save. Predictions are not exact enough for smaller savings,
    and compression costs precision."""
    min_gain_of_differences: float = 0.03
    """The smallest share of a step, or of the compressed bytes, that a plan with different choices must save compared
    with the best plan with equal choices. Predictions are not exact enough for smaller savings."""
    grouping: bool = True
    """Whether small gradients may be fused into groups."""
    groups: int | None = None
    """Planner mergecomp: number of groups; None: the planner adds groups while they pay; 0: no groups."""
    margin: float = 0.15
    """Safety margin: transfers that a plan hides stay hidden if synchronisation takes this share longer than
    predicted."""
    max_evaluations: int = 250
    """The largest number of predictions of a search. It is a count, so that results are equal on all machines."""
    max_events: int = 12_000_000
    """The largest number of simulated events of a search: about 3 s of one core."""

    def __post_init__(self) -> None:
        if self.max_evaluations < 10:
            raise InvalidArgument(f"expected at least 10 predictions to plan with, not {self.max_evaluations}")

    def allowed(self, gradient: Gradient, profile: Profile) -> tuple[str, ...]:
        """The codecs that `gradient` may have besides none. Raises InvalidArgument for a codec that the profile
        lacks."""
        everywhere = profile.codec_names if self.codecs is None else self.codecs
        matching = (codecs for pattern, codecs in self.codecs_for if fnmatchcase(gradient.name, pattern))
        codecs = tuple(codec for codec in next(matching, everywhere) if codec != RAW)
        for codec in codecs:
            costs = profile.costs(codec)
            if self.max_relative_error is not None and costs.relative_error is None:
                raise InvalidArgument(
                    f"max_relative_error is set, and the profile does not know the error of '{codec}'"
                )
        if gradient.bytes < self.min_compress_bytes:
            return ()
        # Where two linked tensors would save too little, the engine sends one without a codec.
        return tuple(
            codec
            for codec in codecs
            if codec not in profile.linked or linked_tensors(profile, gradient, codec) is not None
        )
