# SPDX-License-Identifier: Apache-2.0
"""How many elements the vector has that an operator makes. All stages of the compiler derive it from these forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hipress.compll.ir.expressions import Expr


@dataclass(frozen=True)
class Like:
    """As many as another vector."""

    vector: str


@dataclass(frozen=True)
class AtMost:
    """Any number up to the length of another vector."""

    vector: str


@dataclass(frozen=True)
class First:
    """`count`, or all of the vector's elements if there are fewer."""

    vector: str
    count: Expr


@dataclass(frozen=True)
class Blocks:
    """One for each `block` elements of the vector; the last block may be shorter."""

    vector: str
    block: Expr


@dataclass(frozen=True)
class Exactly:
    """`count`; 0 if that is negative."""

    count: Expr


Length: TypeAlias = Like | AtMost | First | Blocks | Exactly
