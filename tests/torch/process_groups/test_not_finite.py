# SPDX-License-Identifier: Apache-2.0
"""A step with an average that is not finite changes no state, on any rank, as loss scalers leave the step out: what
comes later is as if the step had not been. The same holds for a single tensor for which no rank has a gradient."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.process_groups.steps_that_do_not_count import steps_that_do_not_count
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@training.in_process_group
def _steps(rank: int, topology: str, on_gpu: bool) -> None:
    steps_that_do_not_count(rank, topology, FakeGpuSide if on_gpu else None)


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize(("topology", "world"), [("ps", 2), thorough("allgather", 2), thorough("hierarchical", 4)])
def test_a_step_that_does_not_count_changes_no_state(tmp_path: Path, topology: str, world: int, on_gpu: bool) -> None:
    run(_steps, world, str(tmp_path), topology, on_gpu)
