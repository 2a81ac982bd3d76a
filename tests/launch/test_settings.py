# SPDX-License-Identifier: Apache-2.0
"""Ranks with different values of a setting that must be the same do not train: each rank's error names the setting and
the values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hipress.settings import SAME_ON_ALL_RANKS
from tests.launch.conftest import Start

#: By setting: the statement that rank 1 runs before init(), and a text that the error must contain.
_DIFFERENT = {
    "seed": ("os.environ['HIPRESS_SEED'] = '7'", "HIPRESS_SEED is 0 on ranks 0 and 2, 7 on rank 1"),
    "argument": ("options['seed'] = 7", "HIPRESS_SEED is 0 on ranks 0 and 2, 7 on rank 1"),
    "partitions": (
        "options['partition_bytes'] = 1 << 20",
        "HIPRESS_PARTITION_BYTES is 4194304 on ranks 0 and 2, 1048576 on rank 1",
    ),
    "pipelining": ("options['pipelining'] = False", "HIPRESS_PIPELINING is 1 on ranks 0 and 2, 0 on rank 1"),
    "rounds": ("options['rounds'] = True", "HIPRESS_ROUNDS is 0 on ranks 0 and 2, 1 on rank 1"),
    "coordinator": (
        "options['coordinator'] = 'rank0'",
        "HIPRESS_ROUNDS is 0 on ranks 0 and 2, 1 on rank 1; HIPRESS_COORDINATOR is none on ranks 0 and 2, rank0 on "
        "rank 1",
    ),
    "replicas": ("options['check_replicas'] = 5", "HIPRESS_CHECK_REPLICAS is 0 on ranks 0 and 2, 5 on rank 1"),
    "version": ("hipress.__version__ = '99.1'", "99.1 on rank 1"),
    "wire format": ("_core.WIRE_VERSION = 99", "the version of the wire format is 1 on ranks 0 and 2, 99 on rank 1"),
}

_PROGRAM = """
import os, sys, time
import hipress
from hipress import _core, runtime
options = {{}}
if os.environ["HIPRESS_RANK"] == "1":
    {change}
start = time.monotonic()
try:
    runtime.init(**options)
except hipress.Mismatch as error:
    open(os.environ["FOLDER"] + "/rank" + os.environ["HIPRESS_RANK"], "w").write(str(error))
    runtime.shutdown()
    sys.exit(5 if time.monotonic() - start < 20 else 6)
"""


@pytest.mark.slow
@pytest.mark.parametrize("which", _DIFFERENT)
def test_every_rank_names_the_setting_its_values_and_the_ranks(start: Start, tmp_path: Path, which: str) -> None:
    change, said = _DIFFERENT[which]
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(change=change))
    process = start("-np", "3", sys.executable, str(program), env={"FOLDER": str(tmp_path)})
    _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err.decode()
    for rank in range(3):
        message = (tmp_path / f"rank{rank}").read_text()
        assert said in message
        assert "the ranks have different settings" in message


def test_settings_that_may_differ_do(start: Start, tmp_path: Path) -> None:
    change = """options.update(
        timeout=50.0, start_timeout=40.0, stall_warning=9.0, compute_threads=2,
        window_bytes=1 << 20, bundle_bytes=0, bundle_message_bytes=100,
        bundle_linger=0.001, round_bytes=1 << 16, heartbeat=0.5, heartbeat_limit=9.0, priorities=False)"""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(change=change) + "runtime.current().engine.allgather('done', b'')\n")
    process = start("-np", "3", sys.executable, str(program), env={"FOLDER": str(tmp_path)})
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()


def test_options_that_change_values_messages_or_waits_are_compared() -> None:
    compared = {each.name for each in SAME_ON_ALL_RANKS}
    assert compared == {"seed", "partition_bytes", "pipelining", "rounds", "coordinator", "check_replicas"}
