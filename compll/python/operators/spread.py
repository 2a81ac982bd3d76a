# SPDX-License-Identifier: Apache-2.0
"""spread(vector, block): in the arguments of map, each element of the vector stands for `block` successive elements."""

from __future__ import annotations

from hipress.compll.check.arguments import block_size, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope, VectorRef
from hipress.compll.frontend import syntax as s


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    return VectorRef(values.name, values.type, block_size(node.arguments[1], scope))
