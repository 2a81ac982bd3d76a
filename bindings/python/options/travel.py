# SPDX-License-Identifier: Apache-2.0
"""The options of how tensors travel, which every all-reduce and every distributed optimizer takes.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time. "{parameter}" in a text
stands for the framework's word for tensors that have gradients.
"""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from hipress.options.declaration import Option

#: In place of a codec: one that is cleared for the optimizer is chosen by real steps.
AUTO = "auto"
MIN_COMPRESS_BYTES = 4096
"""Bytes below which gradients travel raw: they are biases and norms, which gain nothing from a codec and lose most."""


class CollectiveOptions(TypedDict, total=False):
    """The options of one operation's values."""

    codec: Annotated[
        str,
        Option(
            'How gradients are compressed: "none", or a codec\'s name, such as "fp16", "int8", "onebit" or a loaded '
            'codec; with options: "dgc(ratio=0.01)". `set_codec()` changes it later.',
            default="none",
        ),
    ]
    topology: Annotated[
        str,
        Option(
            'The topology: "ps", "ring", "butterfly", "allgather" or "hierarchical"; "auto" is "allgather" between two '
            'ranks, and "ps" between more.',
            default="ps",
        ),
    ]
    partitions: Annotated[
        int,
        Option("Number of partitions of each gradient; 0: by its size.", default=0, at_least=0),
    ]


class TravelOptions(CollectiveOptions, total=False):
    """The options of a list of gradients."""

    min_compress_bytes: Annotated[
        int,
        Option("Smaller gradients travel raw.", default=MIN_COMPRESS_BYTES, at_least=0),
    ]
    codec_for: Annotated[
        Mapping[str, str] | None,
        Option("Codecs of single {parameter}s, by name: {codec_for_example}. All others get `codec`.", default=None),
    ]


class AccuracyOptions(TypedDict, total=False):
    """The option of all ways in that take codec "auto"."""

    accuracy: Annotated[
        str | None,
        Option(
            'With codec "auto": the codecs that it chooses from. "exact": none and bf16. "safe", the default: also '
            'codecs without loss in trainings with this kind of optimizer. "economy": also with a small, bounded one.',
            default=None,
            default_text='"safe"',
            one_of=("exact", "safe", "economy"),
        ),
    ]
