# SPDX-License-Identifier: Apache-2.0
"""The options of `hipress.torch.ddp.compress()`, declared once.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated, Literal

from torch.distributed import ProcessGroup

from hipress.adapter.planned import PlanArgument
from hipress.options.declaration import Option
from hipress.options.group_travel import BesideCodec, GroupTravel

Carrier = Literal["group", "hipress"]

#: The words that fill the placeholders of the options' texts for this function.
WORDS = {
    "gradient": "gradient",
    "codec_for_example": '{"embedding.weight": "fp16"}',
    "more_topologies": ' "hierarchical": the ranks of a host add raw values, and one of them averages the sum with the '
    'other hosts, as with "ps" or, for example, "hierarchical(ring)".',
    "group_only_seed": ' Carrier "group" only: the engine has the seed of `init()`.',
}


class HookBesideCodec(BesideCodec, total=False):
    """The options of compress() without the codec."""

    carrier: Annotated[
        Carrier,
        Option(
            '"group": the model\'s process group, which takes tensors on the model\'s device (Gloo, NCCL). "hipress": '
            "HiPress' engine, after `hipress.torch.init()`, with as many ranks as the group has.",
            default="group",
            one_of=("group", "hipress"),
        ),
    ]
    ranks_per_host: Annotated[
        int,
        Option(
            'With topology "hierarchical": the number of ranks per host. Ranks with consecutive numbers share a host, '
            'as with torchrun. Carrier "group" only.',
            default=0,
            at_least=0,
        ),
    ]
    host_group: Annotated[
        ProcessGroup | None,
        Option(
            "In place of `ranks_per_host`: the process group of the ranks of this host. All hosts have as many ranks.",
            default=None,
        ),
    ]
    plan: Annotated[
        PlanArgument,
        Option(
            "How the gradient of each parameter travels, in place of codec, topology, min_compress_bytes, "
            "compress_vectors and codec_for: a file from `hipress plan`, or a hipress.secopa Plan. Its predictions are "
            "of the engine. With carrier \"group\" a gradient of one of the plan's groups has the group's codec and "
            "topology, and travels with its bucket.",
            default=None,
        ),
    ]


class HookOptions(HookBesideCodec, GroupTravel, total=False):
    """The options of compress()."""
