# SPDX-License-Identifier: Apache-2.0
"""The interface of a target: a kind of device that the compiler emits code for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hipress.compll import ir
from hipress.compll.emit.origin import Origin
from hipress.compll.passes import plan


@dataclass(frozen=True)
class SinkLowering:
    """How a target computes one kind of sink (passes/plan.py).

    The functions get the target's own TilePass and Steps, so their types differ from target to target.
    """

    #: (the pass over a tile, the sink): writes what the loop does for one element.
    element: Callable[[Any, Any], None]
    #: (the steps, the sink, a vector as long as the loop): reserves memory before the loop.
    before: Callable[[Any, Any, str], None] | None = None
    #: (the steps, the sink, a vector as long as the loop): completes the result after the loop.
    after: Callable[[Any, Any, str], None] | None = None


class Target(ABC):
    """One target. The class attributes are the words in which the targets' texts differ."""

    name: ClassVar[str]
    #: Ending of a generated file's name.
    suffix: ClassVar[str]
    #: Stands before a function that computes an element.
    inline: ClassVar[str]
    #: Stands before the operator of a functor.
    method: ClassVar[str]
    #: The function that gives the smaller of two counts.
    least: ClassVar[str]
    #: The function that makes a number comparable as an unsigned integer.
    order_key: ClassVar[str]

    def __init__(self) -> None:
        self.sinks: dict[type[plan.Sink], SinkLowering] = {}

    @abstractmethod
    def codec(self, program: ir.Program, origin: Origin) -> str:
        """The source file of a codec."""
