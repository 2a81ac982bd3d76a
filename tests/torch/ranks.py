# SPDX-License-Identifier: Apache-2.0
"""Ranks whose processes have imported torch."""

from __future__ import annotations

from tests.ranks import Ranks

_ranks = Ranks("import torch; torch.set_num_threads(1); import hipress.torch")
outcomes, run, end = _ranks.outcomes, _ranks.run, _ranks.end
