# SPDX-License-Identifier: Apache-2.0
"""A trace file that cannot be written is an error before training, and no failure leaves half a file."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument, TransportError
from tests.core.casync.engine_world import run_ranks, spec


@contextmanager
def room(size: int) -> Iterator[None]:
    """Limits the size of files, as a full disk does. Python ignores the signal of this limit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def traced_step(engine: _core.Engine, file: Path) -> None:
    engine.start_trace()
    values = np.ones(50_000, np.float32)
    (tensor,) = engine.declare([spec("layer", values)])
    engine.wait(engine.submit(tensor, values, values))
    engine.stop_trace(str(file))


def test_what_is_prepared_is_an_empty_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    _core.prepare_trace_file(str(file))
    assert json.loads(file.read_text()) == []
    _core.prepare_trace_file(str(file))  # another rank prepares the file, too
    run_ranks(3, lambda engine: traced_step(engine, file))
    processes = {event["pid"] for event in json.loads(file.read_text())}
    assert processes == {0, 1, 2}
    assert os.listdir(tmp_path) == ["trace.json"]


def test_preparing_keeps_what_others_wrote(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run_ranks(1, lambda engine: traced_step(engine, file))
    written = file.read_text()
    _core.prepare_trace_file(str(file))
    assert file.read_text() == written


def test_the_file_that_a_link_names_is_written(tmp_path: Path) -> None:
    file, link = tmp_path / "trace.json", tmp_path / "latest"
    link.symlink_to(file)
    file.touch(0o640)
    _core.prepare_trace_file(str(link))
    assert link.is_symlink()
    assert json.loads(file.read_text()) == []
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("where", ["missing/trace.json", "", "file/trace.json", "notes.txt", "pipe"])
def test_where_no_trace_can_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "notes.txt").write_text("not a trace, and dear to somebody\n")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InvalidArgument, match=r"the trace .* cannot be written: .*HIPRESS_TRACE"):
        _core.prepare_trace_file(str(tmp_path / where))
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "notes.txt").read_text() == "not a trace, and dear to somebody\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            _core.prepare_trace_file(str(tmp_path / "trace.json"))
        except InvalidArgument as error:
            os._exit(7 if "Permission denied" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_full_disk_is_found_before_training(tmp_path: Path) -> None:
    with room(64 << 10), pytest.raises(InvalidArgument, match="cannot be written"):
        _core.prepare_trace_file(str(tmp_path / "trace.json"))
    assert not os.listdir(tmp_path)


def test_a_disk_that_got_full_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run_ranks(1, lambda engine: traced_step(engine, file))
    written = file.read_text()

    def body(engine: _core.Engine) -> None:
        with room(len(written) + 100), pytest.raises(TransportError, match="This rank's records are lost"):
            traced_step(engine, file)

    run_ranks(1, body)
    assert file.read_text() == written
    assert os.listdir(tmp_path) == ["trace.json"]
