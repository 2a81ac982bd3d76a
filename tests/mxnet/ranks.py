# SPDX-License-Identifier: Apache-2.0
"""Ranks whose processes have imported MXNet."""

from __future__ import annotations

from tests.ranks import Ranks

_ranks = Ranks("import os; os.environ['OMP_NUM_THREADS'] = '1'; import mxnet; import hipress.mxnet")
outcomes, run = _ranks.outcomes, _ranks.run
