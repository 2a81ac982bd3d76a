# SPDX-License-Identifier: Apache-2.0
"""The text of one element, for operators whose elements are computed where they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hipress.compll import ir

if TYPE_CHECKING:
    from hipress.compll.emit.scope import Scope

#: (where the text will stand, the operator's node): the element at scope.position().
Element = Callable[["Scope", Any], str]

#: By the operators' nodes; operators/table.py fills it.
ELEMENTS: dict[type[ir.Operator], Element] = {}
