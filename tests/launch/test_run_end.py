# SPDX-License-Identifier: Apache-2.0
"""`hipress run`: the exit code tells how a job has ended, and no process of the job is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hipress.launch.launcher import LaunchOptions
from tests.launch.conftest import PATIENCE, Start, assert_gone, is_running, read_pids, wait_until

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, bytes, bytes]]

#: A rank with a child process, as data loaders and wrapper scripts have; both write down their process ids.
FAMILY = "sleep 300 & echo $! > {0}/child-$HIPRESS_RANK.pid; echo $$ > {0}/$HIPRESS_RANK.pid; wait"


@pytest.mark.parametrize("code", [1, 3, 255])
def test_the_first_failure_gives_the_exit_code_and_ends_the_others(run: Run, tmp_path: Path, code: int) -> None:
    wait = f"while [ $(cat {tmp_path}/*.pid 2>/dev/null | wc -l) -lt 4 ]; do sleep 0.02; done"
    fail = f"[ $HIPRESS_RANK = 1 ] && {{ {wait}; exit {code}; }}"
    begin = time.monotonic()
    result, _, err = run("-np", "3", "sh", "-c", f"{fail}; {FAMILY.format(tmp_path)}")
    assert result == code
    assert f"rank 1 exited with {code}; ending the other ranks".encode() in err
    assert time.monotonic() - begin < 5, "no rank ignored SIGTERM, so no grace time was necessary"
    assert_gone(read_pids(tmp_path, 4))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_rank_killed_by_a_signal(run: Run, name: str) -> None:
    number = signal.Signals[name].value
    script = f"ulimit -c 0; [ $HIPRESS_RANK = 2 ] && kill -{number} $$; exec sleep 300"
    code, _, err = run("-np", "3", "sh", "-c", script)
    assert code == 128 + number
    assert f"rank 2 was killed by {name}".encode() in err


def test_failures_that_follow_the_first_do_not_change_the_exit_code(run: Run) -> None:
    script = "trap 'exit 9' TERM; [ $HIPRESS_RANK = 1 ] && exit 4; while :; do sleep 0.05; done"
    assert run("-np", "3", "sh", "-c", script)[0] == 4


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_time(run: Run, tmp_path: Path) -> None:
    deaf = f"trap '' TERM; {FAMILY.format(tmp_path)}"
    fail = f"[ $HIPRESS_RANK = 0 ] && {{ while [ ! -s {tmp_path}/1.pid ]; do sleep 0.02; done; exit 5; }}"
    code, _, err = run("-np", "2", "--grace", "0.3", "sh", "-c", f"{fail}; {deaf}")
    assert code == 5
    assert b"rank 1 has not ended within 0.3 s: killing it" in err
    assert_gone(read_pids(tmp_path, 2))


def test_children_may_clean_up_after_their_wrapper_has_died(run: Run, tmp_path: Path) -> None:
    # SIGTERM ends the shell at once; the shell's child takes a moment to save its state.
    (tmp_path / "child").write_text(
        f"trap 'sleep 0.3; echo saved; exit 0' TERM; echo > {tmp_path}/up; sleep 300 & wait"
    )
    fail = f"[ $HIPRESS_RANK = 0 ] && {{ while [ ! -e {tmp_path}/up ]; do sleep 0.02; done; exit 1; }}"
    code, out, _ = run("-np", "2", "sh", "-c", f"{fail}; sh {tmp_path}/child; true")
    assert (code, out) == (1, b"[1] saved\n")


def test_background_children_end_with_a_rank_that_succeeded(run: Run, tmp_path: Path) -> None:
    script = FAMILY.format(tmp_path).removesuffix("; wait")
    code, _, err = run("-np", "2", "sh", "-c", script)
    assert (code, err) == (0, b"")
    assert_gone(read_pids(tmp_path, 4))


def test_background_children_that_ignore_sigterm_end_too(run: Run, tmp_path: Path) -> None:
    script = f"trap '' TERM; {FAMILY.format(tmp_path)}".removesuffix("; wait")
    assert run("-np", "1", "--grace", "0.2", "sh", "-c", script)[0] == 0
    assert_gone(read_pids(tmp_path, 2))


def test_a_daemon_that_holds_the_output_does_not_hold_the_launcher(run: Run, tmp_path: Path) -> None:
    script = f"setsid sleep 300 & echo $! > {tmp_path}/daemon.pid; echo done"
    try:
        assert run("-np", "1", "--grace", "0.2", "bash", "-c", script) == (0, b"[0] done\n", b"")
    finally:
        for pid in read_pids(tmp_path, 1):
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("sent", "received", "code"),
    [(signal.SIGINT, "INT", 130), (signal.SIGTERM, "TERM", 143), (signal.SIGHUP, "TERM", 129)],
)
def test_signals_to_the_launcher_reach_the_ranks(
    start: Start, tmp_path: Path, sent: signal.Signals, received: str, code: int
) -> None:
    # The script is in Python, because a shell starts its background children with SIGINT ignored.
    script = f"""
import os, signal, subprocess
rank = os.environ["HIPRESS_RANK"]
def end(*_):
    print("got {received}")
    raise SystemExit(0)
signal.signal(signal.SIG{received}, end)
child = subprocess.Popen(["sleep", "300"])
for name, pid in (("child", child.pid), ("rank", os.getpid())):
    with open(f"{tmp_path}/{{name}}-{{rank}}.pid", "w") as file: print(pid, file=file)
signal.pause()
"""
    process = start("-np", "2", sys.executable, "-S", "-c", script)
    pids = read_pids(tmp_path, 4)
    process.send_signal(sent)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert sorted(out.splitlines()) == [f"[{rank}] got {received}".encode() for rank in range(2)]
    assert f"{sent.name}: ending the ranks".encode() in err
    assert_gone(pids)


def test_ctrl_c_again_kills_at_once(start: Start, tmp_path: Path) -> None:
    process = start("-np", "2", "--grace", "200", "sh", "-c", f"trap '' INT TERM; {FAMILY.format(tmp_path)}")
    pids = read_pids(tmp_path, 4)
    process.send_signal(signal.SIGINT)
    time.sleep(0.6)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert_gone(pids)


def test_ctrl_c_works_while_nobody_reads_the_output(start: Start, tmp_path: Path) -> None:
    process = start("-np", "2", "--grace", "0.5", "sh", "-c", f"echo $$ > {tmp_path}/$HIPRESS_RANK.pid; exec yes")
    pids = read_pids(tmp_path, 2)
    time.sleep(0.3)  # long enough to fill every buffer between the ranks and the test
    process.send_signal(signal.SIGINT)
    assert_gone(pids)
    process.send_signal(signal.SIGINT)  # the second Ctrl-C gives up the unread output
    assert process.wait(PATIENCE) == 130


def test_a_launcher_started_with_signals_ignored_keeps_ignoring_them(start: Start, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/0.pid; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    process = start("-np", "1", "sh", "-c", script, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    read_pids(tmp_path, 1)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 0


def test_ranks_and_their_children_die_with_a_launcher_that_is_killed(start: Start, tmp_path: Path) -> None:
    deaf = f"trap '' INT TERM HUP; {FAMILY.format(tmp_path)}"
    process = start("-np", "3", "sh", "-c", deaf)
    pids = read_pids(tmp_path, 6)
    guards = _children(process.pid) - set(pids)
    assert len(guards) == 1
    process.send_signal(signal.SIGKILL)
    assert_gone([*pids, *guards])


def test_the_job_survives_the_loss_of_its_guard(start: Start, tmp_path: Path) -> None:
    process = start("-np", "1", "sh", "-c", f"echo $$ > {tmp_path}/0.pid; read line; exit 6", stdin=subprocess.PIPE)
    pids = read_pids(tmp_path, 1)
    (guard,) = _children(process.pid) - set(pids)
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: not is_running(guard), "the end of the guard")
    process.communicate(b"\n", PATIENCE)
    assert process.returncode == 6


def test_the_timeout_ends_the_job(run: Run, tmp_path: Path) -> None:
    code, _, err = run("-np", "2", "--timeout", "1", "sh", "-c", FAMILY.format(tmp_path))
    assert code == 124
    assert b"the job has not ended within 1 s" in err
    assert_gone([int(file.read_text()) for file in tmp_path.glob("*.pid")])


def test_ranks_that_end_at_different_times_all_count(run: Run) -> None:
    assert run("-np", "3", "sh", "-c", "sleep 0.$HIPRESS_RANK; echo $HIPRESS_RANK")[1] == b"[0] 0\n[1] 1\n[2] 2\n"


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


#: Seconds that `hipress run` waits for ranks to end by themselves.
_GRACE = LaunchOptions.grace

#: An import that loses KeyboardInterrupt: many modules catch every exception while they import.
_SWALLOWS = """
import os, time
def imports():
    open(f"{folder}/{{os.environ['HIPRESS_RANK']}}.pid", "w").write(f"{{os.getpid()}}\\n")
    for _ in range(2):
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            pass
"""


def _end_by_ctrl_c(start: Start, program: Path, pids: Path, ranks: int) -> tuple[float, bytes]:
    """The seconds until the job has ended after Ctrl-C, and its output."""
    process = start("-np", str(ranks), sys.executable, str(program))
    started = read_pids(pids, ranks)
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    took = time.monotonic() - begin
    assert process.returncode == 130
    assert_gone(started)
    return took, err


def test_ctrl_c_ends_ranks_that_still_import(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_SWALLOWS.format(folder=tmp_path) + "imports()\n")
    took, err = _end_by_ctrl_c(start, program, tmp_path, 2)
    assert took < _GRACE
    assert b"killing it" not in err


def test_ctrl_c_ends_ranks_that_wait_for_one_that_imports(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, time
rank = os.environ["HIPRESS_RANK"]
if rank != "0":
    from hipress import runtime
open(f"{tmp_path}/{{rank}}.pid", "w").write(f"{{os.getpid()}}\\n")
if rank == "0":
    time.sleep(100)  # imports
runtime.init()
""")
    took, err = _end_by_ctrl_c(start, program, tmp_path, 3)
    assert took < _GRACE
    assert b"killing it" not in err


def test_a_rank_that_trains_may_save_after_ctrl_c(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, time
from hipress import runtime
runtime.init()
open(f"{tmp_path}/{{os.getpid()}}.pid", "w").write(f"{{os.getpid()}}\\n")
try:
    time.sleep(100)
except KeyboardInterrupt:
    time.sleep(2.0)
    open(f"{tmp_path}/saved{{runtime.rank()}}", "w")
""")
    took, _ = _end_by_ctrl_c(start, program, tmp_path, 2)
    assert took > 1.9
    assert {"saved0", "saved1"} <= set(os.listdir(tmp_path))
