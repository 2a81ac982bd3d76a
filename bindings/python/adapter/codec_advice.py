# SPDX-License-Identifier: Apache-2.0
"""Warns once of codecs that do not fit an optimizer: by their properties, and by trainings that have shown a loss.
docs/guide/choosing-a-codec.md and docs/convergence.md have the measurements behind it."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hipress._library import load_core
from hipress.adapter.optim.optimizer_traits import OptimizerTraits
from hipress.errors import CodecWarning, InvalidArgument
from hipress.secopa.evidence.clearance import kinds_with_evidence, standings
from hipress.secopa.evidence.document import read
from hipress.secopa.evidence.optimizers import KINDS

_PAGE = "docs/guide/choosing-a-codec.md"
#: Codecs with which AdamW trains as well as with uncompressed gradients.
_INSTEAD = 'codec="int8" or "int4"'
#: Codecs that send every value, rounded to a level of its block. Their residuals are small, and AdamW trains with them
#: as with uncompressed gradients.
_EVERY_VALUE = frozenset({"int8", "int4", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1", "dynamiq"})


@dataclass
class CodecAdvice:
    """Objections to the codecs of one distributed optimizer. Without `optimizer` there are no objections."""

    optimizer: OptimizerTraits | None = None
    _said: set[str] = field(default_factory=set)

    def objection(self, codec: str) -> str:
        """The reason why `codec` does not fit this optimizer, and what to use instead; empty: there is no objection."""
        if self.optimizer is None or codec == "none":
            return ""
        try:
            name, known = self.optimizer.name, load_core().create_codec(codec)
        except InvalidArgument:
            return ""  # the agreement of the ranks will refuse it
        doubled = "velocity" in known.states and _momentum_of(known.signature) > 0 and self.optimizer.momentum
        # powersgd's warm start is no residual.
        delays = set(known.states) - {"factor"} and known.name not in _EVERY_VALUE
        if self.optimizer.second_moments and delays:
            instead = _INSTEAD
            if self.optimizer.belonging:
                own = f"{self.optimizer.belonging}.{_own(self.optimizer)}"
                instead += f", or {own} in place of {name} (docs/guide/adam.md)"
            return (
                f"codec {codec!r} has error feedback (it sends dropped values later), and {name} divides by second "
                "moments of the sums: together they train far worse than uncompressed gradients. "
                + (f"{known.name} also has momentum of its own. " if doubled else "")
                + f"Use {instead}"
            )
        if doubled:
            module = self.optimizer.belonging
            belongs = f", or {module}.DGCSGD, which has it once" if module else ""
            return (
                f"codec {codec!r} and {name} both have momentum: applied twice, momentum trains far worse or ends in "
                f"NaN. Give {name} momentum 0, so that only the codec has momentum, or use {_INSTEAD}"
                f"{belongs}"
            )
        return _shown(codec, known.signature, self.optimizer)

    def without_objection(self, codecs: Iterable[str]) -> tuple[str, ...]:
        """The codecs of `codecs` without objection."""
        return tuple(codec for codec in codecs if not self.objection(codec))

    def warn(self, codecs: Iterable[str], *, left_out: bool = False) -> None:
        """Warns of each codec with an objection, at the line of the user's code that called. It warns once per codec
        name. `left_out`: whether automatic plans leave the codec out.

        All ranks warn, so if a filter makes the warning an error, all ranks raise it.
        """
        for codec in codecs:
            if not (objection := self.objection(codec)):
                continue
            family, _ = load_core().parse_codec_text(codec)
            if family in self._said:
                continue
            self._said.add(family)
            if left_out:
                objection = f"automatic plans leave out codecs that do not suit the optimizer: {objection}"
            warnings.warn(f"{objection}; see {_PAGE}", CodecWarning, stacklevel=_depth_of_user())


def _shown(codec: str, signature: str, optimizer: OptimizerTraits) -> str:
    """The objection of the evidence; empty: there is none."""
    lost = _losses(optimizer.kind).get(signature)
    if lost is None:
        return ""
    how_much = (
        f"lost {lost:.0%} of the gain that they have without this codec" if math.isfinite(lost) else "ended in NaN"
    )
    return (
        f"codec {codec!r} and {optimizer.name}: trainings with this kind of optimizer ({KINDS[optimizer.kind]}) "
        f'{how_much}, see `hipress evidence --optimizer {optimizer.kind}`. Use {_INSTEAD}, or codec="auto"'
    )


@functools.cache
def _losses(kind: str) -> Mapping[str, float]:
    """The largest loss that trainings have proved of codecs, as a part of the whole gain, by the codec's signature. An
    optimizer of an unknown kind gets no objection."""
    if kind not in kinds_with_evidence(read()):
        return {}
    create = load_core().create_codec
    losing = (each for each in standings(kind) if each.is_codec and each.level == "loses")
    return {create(each.method).signature: max(row.gap for row in each.rows) for each in losing}


def _own(optimizer: OptimizerTraits) -> str:
    """HiPress' optimizer that takes the place of one with second moments."""
    only_torch = optimizer.belonging == "hipress.torch.optim"
    return "OneBitLamb" if only_torch and "lamb" in optimizer.name.lower() else "OneBitAdam"


def _momentum_of(signature: str) -> float:
    """The option `momentum` of the codec; 1 if the codec has no such option."""
    return float(load_core().parse_codec_text(signature)[1].get("momentum", 1.0))


def _depth_of_user() -> int:
    """The `stacklevel` for warnings.warn() in the caller: the innermost function outside of this package."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hipress":
        depth, frame = depth + 1, frame.f_back
    return depth
