# SPDX-License-Identifier: Apache-2.0
"""A process can end while an average is alive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_PROGRAM = """
import datetime, sys, torch, torch.distributed as dist
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape

store, rank = dist.FileStore(sys.argv[1], 2), int(sys.argv[2])
dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=30))

def use():
    average = GroupAverage({"a": TensorShape(100_000, torch.float32, 2)}, None, GroupOptions("onebit"))
    average.start([("a", torch.randn(100_000))], 0).wait()
    dist.barrier()
    dist.destroy_process_group()
    if len(sys.argv) > 3:
        sys.average = average

use()
"""


@pytest.mark.parametrize("keeps", [False, True])
def test_a_process_ends_whatever_it_still_holds(tmp_path: Path, keeps: bool) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "store")]
    more = ["keep"] if keeps else []
    ranks = [subprocess.Popen([*command, str(rank), *more], stderr=subprocess.PIPE) for rank in range(2)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=60.0)
        assert rank.returncode == 0, errors.decode()[-1000:]
