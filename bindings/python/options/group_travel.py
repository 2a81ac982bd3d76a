# SPDX-License-Identifier: Apache-2.0
"""The options of tensors over a process group, for hipress.torch.ddp and hipress.torch.fsdp.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from hipress.options.declaration import Option
from hipress.options.scaling import ScalingOptions
from hipress.options.travel import MIN_COMPRESS_BYTES, AccuracyOptions
from hipress.options.warmup import Warmup


class BesideCodec(ScalingOptions, AccuracyOptions, total=False):
    """The options without `codec`, which functions also take by position."""

    topology: Annotated[
        str,
        Option(
            '"ps": each rank averages its share of a gradient and encodes the average again. "allgather": each rank '
            'sends its encoded gradient to all others, which suits sparse codecs on few ranks. "ring", "butterfly": '
            'ranks pass partial sums on, encoded again each time. "auto": "allgather" between two ranks, which is as '
            'many bytes as "ps" and one hop fewer, and "ps" between more.{more_topologies}',
            default="auto",
        ),
    ]
    min_compress_bytes: Annotated[
        int,
        Option("Smaller {gradient}s are averaged exactly.", default=MIN_COMPRESS_BYTES, at_least=0),
    ]
    compress_vectors: Annotated[
        bool,
        Option(
            "Whether {gradient}s of parameters with one dimension or none (biases, norms) are compressed, too.",
            default=False,
        ),
    ]
    codec_for: Annotated[
        Mapping[str, str] | None,
        Option(
            "Codecs of single parameters, by name: {codec_for_example}. They hold for vectors and small {gradient}s, "
            "too. All others get `codec`.",
            default=None,
        ),
    ]
    warmup: Annotated[
        int | Warmup | None,
        Option(
            "Number of first steps in which all values are averaged exactly. hipress.torch.Warmup in place of a number "
            "sets another codec, or ratios of `codec` in turn.",
            default=None,
        ),
    ]
    seed: Annotated[int, Option("Seed of random rounding.{group_only_seed}", default=0, at_least=0)]
    optimizer: Annotated[
        Any,
        Option(
            'With codec "auto": the optimizer of the model, or its kind: "sgd", "momentum", "adam", "muon" or "lamb". '
            "Without it a codec must be cleared for every kind of which there are trainings.",
            default=None,
        ),
    ]


class GroupTravel(BesideCodec, total=False):
    """The options of a list of tensors over a process group."""

    codec: Annotated[
        str,
        Option(
            'How gradients are compressed, for example "onebit" or "dgc(ratio=0.01)"; "none": they are averaged '
            "exactly.",
            default="none",
        ),
    ]
