# SPDX-License-Identifier: Apache-2.0
"""Horovod's `compression=`: what HiPress calls a codec, under Horovod's names."""

from __future__ import annotations

from hipress.errors import InvalidArgument


class Compression:
    """As codecs. Every other codec is given by name: `codec="onebit"`."""

    none = "none"
    fp16 = "fp16"


def codec_of(compression: str, codec: str, *, floating: bool = True) -> str:
    """The codec that the two arguments choose; as in Horovod, `compression` leaves tensors that are not `floating` as
    they are. Raises InvalidArgument.
    """
    if compression not in (Compression.none, Compression.fp16):
        raise InvalidArgument(
            f"compression={compression!r}: choose Compression.none or Compression.fp16, or give codec=; a compression "
            "of one's own is a CompLL program, see hipress.load_codec()"
        )
    if compression == Compression.none:
        return codec
    if codec != "none":
        raise InvalidArgument(f"give either compression or codec, not both (codec={codec!r})")
    return compression if floating else "none"
