# SPDX-License-Identifier: Apache-2.0
"""When figures say that compression does harm, and what happens then.

The limits come from trainings of benchmarks/harm.py, which has a codec's figures beside the loss that it ended with.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from hipress._library import load_core
from hipress.errors import CodecWarning, HipressError, InvalidArgument
from hipress.log import logger
from hipress.watching.figures import Figures, TensorFigures

_ACTIONS = ("warn", "safer", "ignore")
#: Averages that have less of their step's own gradient do harm, unless there is no momentum and the rest comes later.
FRESH = 0.85
#: Above it the error of averages harms optimizers that divide by second moments, which it makes larger.
ERROR = 1.0
#: Kinds of optimizers without momentum, and with first moments only.
_PLAIN, _FIRST_MOMENTS = "sgd", "momentum"
#: What a gradient travels with instead, the first of them that is not its own codec. Trainings have cleared both.
_SAFER = ("int4", "int8")


@dataclass(frozen=True)
class Harm:
    """What figures say."""

    why: str
    worst: TensorFigures
    """The gradient with the largest part of it."""


def harm(figures: Figures, kind: str | None) -> Harm | None:
    """What the figures say of a training with an optimizer of this kind (None: unknown); None: they say no harm."""
    if kind == _PLAIN:
        figures = figures.only([name for name, each in figures.tensors.items() if not _has_feedback(each.codec)])
    every = list(figures.tensors.values())
    if not every or figures.steps < 2:
        return None
    if figures.fresh < FRESH:
        return Harm(
            f"the averages have {figures.fresh:.0%} of their step's own gradient; with less than {FRESH:.0%} trainings "
            "end worse",
            max(every, key=lambda each: each.squared_gradient - each.product),
        )
    if kind not in (_PLAIN, _FIRST_MOMENTS) and figures.error > ERROR:
        return Harm(
            f"the square of the averages' error is {figures.error:.0%} of the gradient's; above {ERROR:.0%} trainings "
            "with optimizers that divide by second moments end worse",
            max(every, key=lambda each: each.squared_error),
        )
    return None


def _has_feedback(codec: str) -> bool:
    return "residual" in load_core().create_codec(codec).states


def safer_codec(codec: str) -> str:
    """The codec with which a gradient travels instead; "none": nothing else is safer."""
    family, _ = load_core().parse_codec_text(codec)
    if family in ("int4", "fp4_e2m1"):
        return _SAFER[1]
    return "none" if family in ("int8", "fp8_e4m3", "fp8_e5m2", "bf16", "fp16") else _SAFER[0]


@dataclass
class OnHarm:
    """What happens when figures say harm.

    Arguments:
        action: "warn", "safer" or "ignore", see hipress.torch.watch().
        kind: of the optimizer.
        remedy: the call that changes codecs.
    """

    action: str
    kind: str | None
    remedy: str
    _warned: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.action not in _ACTIONS:
            raise InvalidArgument(f"on_harm={self.action!r}: choose {', '.join(map(repr, _ACTIONS))}")

    def look(self, figures: Figures, safer: Callable[[str, str], None]) -> bool:
        """Looks at new figures; all ranks have the same ones. `safer` gives a gradient another codec. Returns whether
        it has done so."""
        found = None if self.action == "ignore" else harm(figures, self.kind)
        if found is None:
            return False
        codec = safer_codec(found.worst.codec)
        if self.action == "safer":
            return self._make_safer(figures, found, codec, safer)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{_sentence(figures, found)}. Let it travel with codec {codec!r}: {self.remedy} with "
                f"codec_for={{{found.worst.name!r}: {codec!r}}}, or another codec for all; on_harm='safer' does so by "
                "itself",
                CodecWarning,
                stacklevel=2,
            )
        return False

    def _make_safer(self, figures: Figures, found: Harm, codec: str, safer: Callable[[str, str], None]) -> bool:
        try:
            safer(found.worst.name, codec)
        except HipressError as error:
            self.action = "warn"
            logger().warning("on_harm='safer' cannot change codecs, and warns only: %s", error)
            return self.look(figures, safer)
        logger().warning("%s. It travels with codec %r from now on", _sentence(figures, found), codec)
        return True


def _sentence(figures: Figures, found: Harm) -> str:
    return (
        f"compression does harm to this training: in the {figures.steps} steps up to step {figures.step} {found.why}. "
        f"Most of it comes from '{found.worst.name}' with codec {found.worst.codec!r}"
    )
