# SPDX-License-Identifier: Apache-2.0
"""What a planner may decide, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from hipress.errors import InvalidArgument
from hipress.secopa.choice import RAW
from hipress.secopa.gradients import Gradient
from hipress.secopa.profile import Profile


@dataclass(frozen=True)
class PlanningOptions:
    """Without any: whatever the profile knows, for the shortest step."""

    codecs: tuple[str, ...] | None = None
    """Allowed ones; None: all of the profile. That a gradient is not compressed is always allowed."""
    codecs_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of gradients whose name matches a pattern such as "*.bias"; the first that matches counts. Empty: none at all."""
    topologies: tuple[str, ...] = ()
    """Allowed ones; empty: those that may be worth trying."""
    min_compress_bytes: int = 4096
    """Smaller gradients stay as they are: they gain nothing and, being biases and norms, lose most."""
    max_relative_error: float | None = None
    """‖x − x'‖ / ‖x‖ of all gradients together after one encoding; None: whatever the codecs do."""
    max_memory_bytes: int | None = None
    """Per rank, for what docs/algorithms.md counts: staging and states."""
    min_gain: float = 0.05
    """The part of a step that compressing must save in all: what is predicted to save less may as well cost time, and
    costs precision."""
    min_gain_of_differences: float = 0.03
    """The part of a step, or of the compressed bytes, that treating gradients differently must save beside the best
    plan that treats all alike: predictions know no smaller differences."""
    grouping: bool = True
    """Whether small gradients may travel together."""
    groups: int | None = None
    """Planner mergecomp: into how many groups gradients are merged; None: as many as pay; 0: each stays by itself."""
    margin: float = 0.15
    """How much longer synchronisation may take than is predicted, and still be hidden where a plan says so."""
    max_evaluations: int = 250
    """Steps that a search may ask its cost model about: its bound, the same on every machine."""
    max_events: int = 12_000_000
    """Of all these steps together, if they are simulated: some 3 s of one core."""

    def __post_init__(self) -> None:
        if self.max_evaluations < 10:
            raise InvalidArgument(f"expected at least 10 predictions to plan with, not {self.max_evaluations}")

    def allowed(self, gradient: Gradient, profile: Profile) -> tuple[str, ...]:
        """Codecs that `gradient` may have beside none. Raises InvalidArgument for one that the profile lacks."""
        everywhere = tuple(profile.codecs) if self.codecs is None else self.codecs
        matching = (codecs for pattern, codecs in self.codecs_for if fnmatchcase(gradient.name, pattern))
        codecs = tuple(codec for codec in next(matching, everywhere) if codec != RAW)
        for codec in codecs:
            costs = profile.codec(codec)
            if self.max_relative_error is not None and costs.relative_error is None:
                raise InvalidArgument(f"there is a limit of errors, and the profile does not know that of '{codec}'")
        return codecs if gradient.bytes >= self.min_compress_bytes else ()
