# SPDX-License-Identifier: Apache-2.0
"""The program that prints an elastic job's hosts, and processes on other hosts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.launch.elastic import discovery as discovering
from hipress.launch.elastic.discovery import Discovery, hosts_of
from hipress.launch.elastic.hosts import STILL, is_here, remote_command
from tests.launch.conftest import assert_gone, is_running, wait_until

pytestmark = pytest.mark.timeout(180)


def program(folder: Path, body: str, name: str = "hosts.sh") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [("a:4\nb:2\n", {"a": 4, "b": 2}), (" a \n\nb:1", {"a": 3, "b": 1}), ("10.0.0.1:0\n", {"10.0.0.1": 0})],
)
def test_a_line_is_a_host_with_its_ranks(text: str, hosts: dict[str, int]) -> None:
    assert hosts_of(text, 3) == hosts


@pytest.mark.parametrize("text", ["", "\n", "a b\n", "a:b\n", "a:-1\n", ":4\n", "a:1\na:2\n", "-oProxyCommand=x:1\n"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="it printed"):
        hosts_of(text, 1)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [("exit 3", "has ended with 3"), ("echo a:b", "it printed 'a:b'"), ("sleep 60", "has not ended within 0.3 s")],
)
def test_a_program_that_does_not_work_is_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, sentence: str
) -> None:
    monkeypatch.setattr(discovering, "_PATIENCE", 0.3 if "sleep" in body else 10.0)
    with pytest.raises(InvalidArgument, match=sentence):
        Discovery(program(tmp_path, body), 1).first()


def test_later_a_program_that_does_not_work_changes_nothing_and_is_reported_once(tmp_path: Path) -> None:
    found = Discovery(program(tmp_path, f"cat {tmp_path}/hosts"), 2)
    (tmp_path / "hosts").write_text("a\n")
    assert found.first() == {"a": 2}
    (tmp_path / "hosts").write_text("a\nb:5\n")

    def run() -> None:
        now = found.next_time()
        found.tick(now)
        while found.ready():
            for read in found.ready().values():
                read(now)

    run()
    assert found.hosts == {"a": 2, "b": 5}
    (tmp_path / "hosts").write_text("a:x\n")
    run()
    run()
    assert found.hosts == {"a": 2, "b": 5}
    assert [sentence for sentence in found.sentences if "it printed 'a:x'" in sentence] == found.sentences[:1]
    assert len(found.sentences) == 1
    found.close()


#: As ssh: it runs the command in a shell of its own, and ends with it.
SSH = 'shift 2; [ "$1" = far ] && shift && exec env -i HOME=/ sh -c "$*"'


def test_a_remote_process_has_its_token_from_stdin_and_ends_with_ssh(tmp_path: Path) -> None:
    shim = program(tmp_path, SSH, "ssh")
    pid = tmp_path / "pid"
    body = f"echo $HIPRESS_JOB_TOKEN $HIPRESS_X $SECRET $GIVEN > {tmp_path}/seen; echo $$ > {pid}; sleep 100"
    variables = {"HIPRESS_JOB_TOKEN": "secret", "HIPRESS_X": "a b", "SECRET": "no", "PATH": os.environ["PATH"]}
    command, stdin = remote_command("far", ["sh", "-c", body], variables, {"GIVEN": "yes"}, 0.2)
    assert not any("secret" in word for word in command)
    process = subprocess.Popen([shim, *command[1:]], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the start of the process")
    assert (tmp_path / "seen").read_text().split() == ["secret", "a", "b", "yes"]
    remote = int(pid.read_text())
    assert is_running(remote)
    process.stdin.close()  # as if the launcher had gone
    assert_gone([remote])
    process.wait(timeout=10)


def test_a_remote_process_that_stands_still_is_killed(tmp_path: Path) -> None:
    shim = program(tmp_path, SSH, "ssh")
    variables = {"HIPRESS_JOB_TOKEN": "secret", "PATH": os.environ["PATH"]}
    command, stdin = remote_command("far", ["sh", "-c", "kill -STOP $$"], variables, {}, 0.2)
    begin = time.monotonic()
    process = subprocess.Popen([shim, *command[1:]], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    assert process.wait(timeout=20) == 128 + signal.SIGKILL
    assert time.monotonic() - begin > STILL - 1
    process.stdin.close()


def test_the_exit_code_of_a_remote_process_is_that_of_its_command(tmp_path: Path) -> None:
    shim = program(tmp_path, SSH, "ssh")
    variables = {"HIPRESS_JOB_TOKEN": "secret", "PATH": os.environ["PATH"]}
    command, stdin = remote_command("far", [sys.executable, "-c", "raise SystemExit(7)"], variables, {}, 30.0)
    begin = time.monotonic()
    process = subprocess.Popen([shim, *command[1:]], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    assert process.wait(timeout=20) == 7
    assert time.monotonic() - begin < 15
    process.stdin.close()


def test_names_of_this_host() -> None:
    assert is_here("localhost")
    assert is_here(socket.gethostname())
    assert not is_here("a.host.that.is.far")
