# SPDX-License-Identifier: Apache-2.0
"""What a codec says whose encoded values are summed over all ranks without decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hipress.compll.ir.expressions import Expr

#: How ranks combine their statistics.
Agreement: TypeAlias = Literal["max", "min", "sum"]


@dataclass(frozen=True, kw_only=True)
class Summed:
    """The message is `statistics`, on which ranks agree before they encode, and `levels`, which are added.

    Both are names of vectors of encode. Without other ranks, a rank's own statistics are those of all ranks. There is
    one of them for each `block` elements of the gradient.
    `most` depends on parameters only: no level is greater in magnitude.
    """

    statistics: str
    agreement: Agreement
    block: Expr
    levels: str
    most: Expr
