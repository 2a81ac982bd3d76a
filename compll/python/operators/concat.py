# SPDX-License-Identifier: Apache-2.0
"""concat(value, …): the message. check/messages.py checks the statement in which it stands."""

from __future__ import annotations

from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.frontend import syntax as s


def rule(node: s.Call, scope: Scope) -> Result:
    raise scope.unit.error(node.span, "concat makes the message", "write compressed = concat(...)")
