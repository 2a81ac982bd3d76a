# SPDX-License-Identifier: Apache-2.0
"""The codecs with which an optimizer's tensors travel while it compresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.travel import MIN_COMPRESS_BYTES


@dataclass(frozen=True)
class Travel:
    """The codecs of an optimizer's tensors; equal on all ranks."""

    codec: str = "none"
    codec_for: Mapping[str, str] = field(default_factory=dict)
    """Codecs of single parameters, by name."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """Tensors with fewer bytes travel exactly."""

    def check(self, names: list[str]) -> None:
        """Raises InvalidArgument for an unknown codec or parameter name; Unsupported for the codec powersgd, and for
        codecs whose encoded values ranks add.
        """
        unknown = sorted(set(self.codec_for) - set(names))
        if unknown:
            raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(names)} parameters")
        for text in (self.codec, *self.codec_for.values()):
            made = load_core().create_codec(text)
            if made.low_rank is not None or made.summed is not None:
                raise Unsupported(
                    f"codec '{text}' averages gradients, and this optimizer sends other values: use another"
                )
        if self.min_compress_bytes < 0:
            raise InvalidArgument(f"min_compress_bytes={self.min_compress_bytes}: give 0 or more")
