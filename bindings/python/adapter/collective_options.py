# SPDX-License-Identifier: Apache-2.0
"""The options of all-reduces in all frameworks, declared once. Each framework's functions take them in Horovod's order.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated, TypeVar

from hipress.adapter.compression import Compressing, NoneCompressor
from hipress.adapter.operations import part_name
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.reduce_ops import ReduceOp
from hipress.options.declaration import Option
from hipress.options.travel import CollectiveOptions


class AllreduceOptions(CollectiveOptions, total=False):
    """The options of an all-reduce."""

    average: Annotated[bool | None, Option("The older form of `op`: True is Average, False is Sum.", default=None)]
    name: Annotated[
        str | None,
        Option("The name by which ranks match the operation; None: they match it by the order of calls.", default=None),
    ]
    op: Annotated[ReduceOp | None, Option("The operation that combines the values; None: Average.", default=None)]
    prescale_factor: Annotated[
        float, Option("Each rank multiplies its values by it before ranks combine them.", default=1.0)
    ]
    postscale_factor: Annotated[float, Option("HiPress multiplies the combined values by it.", default=1.0)]
    process_set: Annotated[ProcessSet, Option("The ranks that combine their values.", default=global_process_set)]


class CompressedAllreduceOptions(AllreduceOptions, total=False):
    """The options of an all-reduce that takes Horovod's `compression`, too."""

    compression: Annotated[
        Compressing,
        Option('Horovod\'s: Compression.fp16 is codec="fp16".', default=NoneCompressor),
    ]


_Options = TypeVar("_Options", bound=AllreduceOptions)


def of_part(options: _Options, part: int) -> _Options:
    """The options of one tensor of a group."""
    own = options.copy()
    name: str | None = options.get("name", None)  # type: ignore[assignment]
    own["name"] = part_name(name, part)
    return own
