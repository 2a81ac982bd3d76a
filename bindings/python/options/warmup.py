# SPDX-License-Identifier: Apache-2.0
"""The warm-up: in the first steps of a training, ranks use another codec or send more values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress._library import load_core
from hipress.codecs.typed import codec_text
from hipress.errors import InvalidArgument

#: The ratios of deep gradient compression (Lin et al., 2018, section 3.3), where they are sparsities of 75 %, 93.75 %,
#: 98.4375 %, 99.6 % and 99.9 %.
DGC_RATIOS = (0.25, 0.0625, 0.015625, 0.004, 0.001)
"""The warm-up of deep gradient compression (Lin et al., section 3.3): the share of values in each stage."""


@dataclass(frozen=True)
class Warmup:
    """The codec or the ratios of the first steps. It is the same on all ranks.

    Raises InvalidArgument.
    """

    steps: int
    """Number of steps of the warm-up, 1 or more."""
    codec: str = "none"
    """The codec of every gradient in these steps."""
    ratios: Sequence[float] = ()
    """In place of `codec`: the ratios that a codec with an option `ratio` has one after the other, each for the same
    number of steps. DGC_RATIOS are the ratios of deep gradient compression."""

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or isinstance(self.steps, bool) or self.steps < 1:
            raise InvalidArgument(f"a warm-up has 1 step or more, not {self.steps!r}")
        if self.ratios and self.codec != "none":
            raise InvalidArgument(f"a warm-up has codec={self.codec!r} or ratios, not both")
        if isinstance(self.ratios, str) or not all(_is_share(each) for each in self.ratios):
            raise InvalidArgument(f"ratios={self.ratios!r}: give numbers above 0, at most 1")
        if len(self.ratios) > self.steps:
            raise InvalidArgument(f"a warm-up of {self.steps} steps has no room for {len(self.ratios)} ratios")
        load_core().create_codec(self.codec)

    def stages(self, codec: str) -> list[tuple[int, str]]:
        """Pairs of a first step (from 0) and the codec from there on; the last codec is `codec`.

        Raises InvalidArgument if there are ratios and `codec` has none.
        """
        if not self.ratios:
            return [(0, self.codec), (self.steps, codec)]
        starts = [place * self.steps // len(self.ratios) for place in range(len(self.ratios))]
        texts = [with_ratio(codec, ratio) for ratio in self.ratios]
        return [*zip(starts, texts, strict=True), (self.steps, codec)]

    def codec_at(self, step: int, codec: str) -> str:
        """The codec in step `step` (0 is the first step)."""
        return [text for start, text in self.stages(codec) if start <= step][-1]

    def ratio_at(self, step: int, ratio: float) -> float:
        """The ratio in step `step` (0 is the first step); `ratio` after the warm-up."""
        if step >= self.steps:
            return ratio
        # Take the last stage that has begun, see stages().
        return [
            each
            for place, each in enumerate(self.ratios or (1.0,))
            if place * self.steps // max(1, len(self.ratios)) <= step
        ][-1]


def warmup_of(given: int | Warmup | None) -> Warmup | None:
    """The warm-up of an argument. A number of steps means no codec in these steps; None and 0: there is no warm-up.

    Raises InvalidArgument.
    """
    if given is None or isinstance(given, Warmup):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidArgument(f"warmup={given!r}: give a number of steps or a Warmup")
    return Warmup(given) if given else None


def with_ratio(codec: str, ratio: float) -> str:
    """The codec's text with another `ratio`. Raises InvalidArgument if the codec has no option `ratio`."""
    core = load_core()
    if "ratio" not in core.parse_codec_text(core.create_codec(codec).signature)[1]:
        raise InvalidArgument(f"codec '{codec}' has no option ratio, which a warm-up with ratios changes: give codec=")
    name, options = core.parse_codec_text(codec)
    options.pop("ratio", None)
    return codec_text(name, {"ratio": ratio, **options})


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 < value <= 1.0
