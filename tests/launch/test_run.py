# SPDX-License-Identifier: Apache-2.0
"""`hipress run` starts ranks, gives them their environment and input, and prints their output."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.launch.launcher import LaunchOptions, launch
from tests.launch.conftest import PATIENCE, Start, assert_gone, read_pids, wait_until

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, bytes, bytes]]


def test_each_line_has_the_rank_in_front(run: Run) -> None:
    code, out, err = run("-np", "3", "sh", "-c", "echo one; echo two; echo three >&2")
    assert code == 0
    assert sorted(out.splitlines()) == [b"[%d] %s" % (r, w) for r in range(3) for w in (b"one", b"two")]
    assert sorted(err.splitlines()) == [b"[0] three", b"[1] three", b"[2] three"]


def test_no_prefix(run: Run) -> None:
    assert run("-np", "2", "--no-prefix", "printf", r"a\rb\n\377")[1] in (
        b"a\rb\n\xff\n" * 2,
        b"a\rb\n" * 2 + b"\xff\n" * 2,
    )


def test_lines_of_ranks_are_not_mixed_even_when_written_in_pieces(run: Run) -> None:
    script = "import sys\nfor i in range(50):\n for c in 'abcdef': sys.stdout.write(c * 40)\n print()"
    code, out, _ = run("-np", "3", sys.executable, "-S", "-c", script)
    assert code == 0
    whole = b"".join(c * 40 for c in (b"a", b"b", b"c", b"d", b"e", b"f"))
    assert sorted(out.splitlines()) == [b"[%d] %s" % (r, whole) for r in range(3) for _ in range(50)]


def test_long_lines_stay_whole(run: Run) -> None:
    script = "import os; r = os.environ['HIPRESS_RANK']; print(r * 200_000); print(r * 200_000, end='')"
    code, out, _ = run("-np", "2", sys.executable, "-S", "-c", script)
    assert code == 0
    assert sorted(out.splitlines()) == [b"[%d] " % r + b"%d" % r * 200_000 for r in (0, 0, 1, 1)]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"no end of line", b"[0] no end of line\n"),
        ("grün ∇ 梯度\n".encode(), b"[0] " + "grün ∇ 梯度\n".encode()),
        (b"\xff\xfe\x00\x01\n", b"[0] \xff\xfe\x00\x01\n"),
        (b"\n\n", b"[0] \n[0] \n"),
        (b"dos\r\nline\r\n", b"[0] dos\n[0] line\n"),
        (b"\r 10%\r 50%\r100%\n", b"[0]  10%\n[0]  50%\n[0] 100%\n"),
        (b"50%\r", b"[0] 50%\n"),
        (b"", b""),
    ],
)
def test_any_bytes_come_through(run: Run, tmp_path: Path, written: bytes, shown: bytes) -> None:
    (tmp_path / "text").write_bytes(written)
    assert run("-np", "1", "cat", str(tmp_path / "text")) == (0, shown, b"")


def test_a_prompt_shows_on_a_terminal_before_its_line_ends(start: Start) -> None:
    ours, theirs = pty.openpty()
    process = start("-np", "1", "sh", "-c", "printf 'name? '; read name; echo hello $name", stdin=theirs, stdout=theirs)
    os.close(theirs)
    seen = b""

    def saw(text: bytes) -> bool:
        nonlocal seen
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 4096)
        return text in seen

    wait_until(lambda: saw(b"name? "), "the prompt")
    assert b"[0] \x1b[0mname? " in seen, "the output has colours on a terminal"
    os.write(ours, b"world\n")
    wait_until(lambda: saw(b"hello world"), "the answer")
    assert process.wait(PATIENCE) == 0
    os.close(ours)


def test_output_comes_while_the_job_runs(start: Start) -> None:
    process = start("-np", "1", sys.executable, "-S", "-c", "print('now'); input()", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"[0] now\n"
    assert process.poll() is None
    process.communicate(b"\n", PATIENCE)
    assert process.returncode == 0


def test_output_dir_has_each_ranks_bytes(run: Run, tmp_path: Path) -> None:
    where = tmp_path / "new" / "logs"
    run("-np", "2", "--output-dir", str(where), "sh", "-c", "printf $HIPRESS_RANK; echo e >&2")
    assert {file.name: file.read_bytes() for file in where.iterdir()} == {
        "rank-0.out": b"0",
        "rank-1.out": b"1",
        "rank-0.err": b"e\n",
        "rank-1.err": b"e\n",
    }


def test_environment(run: Run) -> None:
    keys = "$HIPRESS_RANK $HIPRESS_SIZE $HIPRESS_LOCAL_RANK $HIPRESS_LOCAL_SIZE $EXTRA $OMP_NUM_THREADS"
    code, out, _ = run("-np", "2", "--env", "EXTRA=a=b", "sh", "-c", f"echo {keys} $HIPRESS_JOB_TOKEN")
    assert code == 0
    first, second = sorted(out.decode().splitlines())
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert first.startswith(f"[0] 0 2 0 2 a=b {threads} ")
    assert second.startswith(f"[1] 1 2 1 2 a=b {threads} ")
    token = first.split()[-1]
    assert token == second.split()[-1]
    assert len(token) >= 32


_TORCH = "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT"


def test_the_variables_of_torchrun_are_set(run: Run) -> None:
    code, out, _ = run("-np", "2", "sh", "-c", f"echo {_TORCH}")
    assert code == 0
    first, second = sorted(out.decode().splitlines())
    place, _, port = first.rpartition(" ")
    assert (place, second) == ("[0] 0 2 0 2 0 127.0.0.1", f"[1] 1 2 1 2 0 127.0.0.1 {port}")


def test_torchs_variables_that_a_user_sets_are_kept(run: Run) -> None:
    chosen = {"MASTER_ADDR": "here", "MASTER_PORT": "12345"}
    assert run("-np", "1", "sh", "-c", f"echo {_TORCH}", env=chosen)[1] == b"[0] 0 1 0 1 0 here 12345\n"
    given = [word for name, value in chosen.items() for word in ("--env", f"{name}={value}")]
    given += ["--env", "LOCAL_RANK=0"]
    # Within a rank of another job the variables are of that job.
    outer = {"RANK": "7", "WORLD_SIZE": "8", "MASTER_ADDR": "there", "MASTER_PORT": "1"}
    expected = [b"[%d] %d 2 0 2 0 here 12345" % (rank, rank) for rank in range(2)]
    assert sorted(run("-np", "2", *given, "sh", "-c", f"echo {_TORCH}", env=outer)[1].splitlines()) == expected
    assert b"there" not in run("-np", "1", "sh", "-c", f"echo {_TORCH}", env=outer)[1]
    assert run("-np", "1", "true", env={"MASTER_PORT": "many"})[0] == 2


def test_a_variable_is_handed_on_by_its_name(run: Run) -> None:
    assert run("-np", "1", "--env", "MINE", "sh", "-c", "echo $MINE", env={"MINE": "a b"})[1] == b"[0] a b\n"


def test_a_script_of_torch_distributed_starts(run: Run) -> None:
    pytest.importorskip("torch.distributed")
    script = (
        "import torch, torch.distributed as dist; dist.init_process_group('gloo'); "
        "told = torch.tensor([1.0 + dist.get_rank()]); dist.all_reduce(told); print(told.item()); "
        "dist.destroy_process_group()"
    )
    code, out, err = run("-np", "2", sys.executable, "-c", script)
    assert (code, sorted(out.splitlines())) == (0, [b"[0] 3.0", b"[1] 3.0"]), err


def test_threads_asked_for_are_kept(run: Run) -> None:
    assert run("-np", "2", "sh", "-c", "echo $OMP_NUM_THREADS", env={"OMP_NUM_THREADS": "7"})[1].count(b" 7\n") == 2


def test_rank_0_inherits_the_listening_socket_and_the_others_do_not(run: Run) -> None:
    script = """
import os, socket, stat
from hipress.launch.rendezvous import resolve
sockets = [fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.stat(fd).st_mode)]
r = resolve()
if r.rank == 0:
    assert len(sockets) == 1 and r.listen_fd not in sockets, (sockets, r)  # a duplicate; the socket is for init() again
    listener = socket.socket(fileno=r.listen_fd)
    assert not listener.get_inheritable()
    connection, _ = listener.accept()
    print(connection.recv(99).decode() == r.token)
else:
    assert sockets == [] and r.listen_fd is None, (sockets, r)
    socket.create_connection((r.host, r.port)).sendall(r.token.encode())
"""
    code, out, err = run("-np", "2", sys.executable, "-c", script)
    assert (code, out) == (0, b"[0] True\n"), err


def test_a_port_that_a_wrapper_closed_is_free_for_rank_0(run: Run) -> None:
    script = """
import socket
from hipress.launch.rendezvous import resolve
r = resolve()
assert r.listen_fd is None, r
if r.rank == 0: socket.create_server((r.host, r.port)).close()
"""
    wrapper = "import os, sys; os.closerange(3, 200); os.execv(sys.argv[1], sys.argv[1:])"
    command = (sys.executable, "-S", "-c", wrapper, sys.executable, "-c", script)
    assert run("-np", "2", *command) == (0, b"", b"")


def test_a_port_that_a_wrapper_keeps_is_reported_as_such(run: Run) -> None:
    wrapper = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    script = "from hipress.launch.rendezvous import resolve; resolve()"
    code, _, err = run("-np", "1", sys.executable, "-S", "-c", wrapper, sys.executable, "-c", script)
    assert code == 1
    assert b"TransportError: rank 0 did not inherit the socket of HIPRESS_RENDEZVOUS" in err


def test_nothing_listens_beyond_loopback_and_after_the_end(run: Run) -> None:
    _, out, _ = run("-np", "1", "sh", "-c", "echo $HIPRESS_RENDEZVOUS")
    host, _, port = out.decode().split()[1].partition(":")
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_rank_0_has_the_standard_input_and_the_others_none(run: Run) -> None:
    code, out, _ = run("-np", "3", "cat", input=b"a line\n\x00more")
    assert (code, out) == (0, b"[0] a line\n[0] \x00more\n")


def test_everything_after_the_command_is_its_own(run: Run) -> None:
    assert run("-np", "1", "echo", "-np", "7", "--", "--env", "x") == (0, b"[0] -np 7 -- --env x\n", b"")
    assert run("-np", "1", "--", "echo", "--", "-n") == (0, b"[0] -- -n\n", b"")


def test_command_not_found(run: Run) -> None:
    code, out, err = run("-np", "2", "no-such-command-here")
    assert (code, out) == (127, b"")
    assert b"command not found: no-such-command-here" in err


def test_a_script_that_is_not_executable(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    code, _, err = run("-np", "1", str(tmp_path / "train.py"))
    assert code == 126
    assert b"did you mean: python " in err


def test_a_file_without_an_interpreter(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo 1\n")
    script.chmod(0o755)
    code, _, err = run("-np", "1", str(script))
    assert code == 126
    assert b"cannot execute" in err


@pytest.mark.parametrize(
    "arguments", [("-np", "0"), ("-np", "-3"), ("-np", "x"), (), ("-np", "1", "--env", "noequals")]
)
def test_bad_options(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments, "true")
    assert (code, out) == (2, b"")
    assert err


@pytest.mark.parametrize("changes", [{"size": 0}, {"command": ()}, {"timeout": -1.0}, {"grace": float("nan")}])
def test_the_function_refuses_bad_options_too(changes: dict[str, object]) -> None:
    options: dict[str, object] = {"command": ("true",), "size": 1}
    with pytest.raises(InvalidArgument):
        launch(LaunchOptions(**(options | changes)))  # type: ignore[arg-type]


def test_a_reader_that_leaves_ends_the_job(start: Start, tmp_path: Path) -> None:
    process = start("-np", "2", "sh", "-c", f"echo $$ > {tmp_path}/$HIPRESS_RANK.pid; exec yes")
    assert process.stdout is not None
    pids = read_pids(tmp_path, 2)
    assert process.stdout.readline() in (b"[0] y\n", b"[1] y\n")
    process.stdout.close()
    assert process.wait(PATIENCE) == 141
    assert_gone(pids)
    process.stdout = None  # the fixture's communicate() must not read it


def test_a_start_takes_no_time(run: Run) -> None:
    begin = time.monotonic()
    assert run("-np", "2", "true")[0] == 0
    # It takes 0.15 s on an idle machine. The bound finds an import of a framework or a forgotten wait.
    assert time.monotonic() - begin < 3


def test_init_again_behind_a_shell(run: Run) -> None:
    """The shell also holds rank 0's socket, so no process can bind the port again."""
    program = (
        "from hipress import runtime\n"
        "for _ in range(3):\n"
        "    runtime.init(); print(runtime.current().engine.allgather('k', b'v')); runtime.shutdown()\n"
    )
    code, out, err = run("-np", "2", "sh", "-c", f'{sys.executable} -c "$0"; exit $?', program)
    assert code == 0, err.decode()
    assert out.count(b"[b'v', b'v']") == 6
