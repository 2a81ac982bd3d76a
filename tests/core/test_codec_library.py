# SPDX-License-Identifier: Apache-2.0
"""Codecs can be loaded from shared libraries, and a wrong library gives a clear error."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.plugin import compile_library, momentum_library

OTHER_ABI = """
struct { unsigned abi; } plugin = {4711};
extern "C" const void* hipress_codec_plugin() { return &plugin; }
"""


def test_a_loaded_codec_is_like_any_other(momentum_codec: str, momentum_path: Path) -> None:
    description = next(codec for codec in _core.describe_codecs() if codec["name"] == momentum_codec)
    assert description["id"] == 5000
    assert description["states"] == ("momentum", "residual")
    codec = _core.create_codec(f"{momentum_codec}(error_feedback=false, factor=1e-1)")
    assert codec.signature == f"{momentum_codec}(error_feedback=false)"
    assert codec.states == ()
    names = [known["name"] for known in _core.describe_codecs()]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("factor=x", "option factor is 'x', which is not a number$"),
        ("factor=0.5x", "not a number"),
        ("factor=nan", "not a number"),
        ("factor=inf", r"not in \[0, 1\)"),
        ("level=1.5", "option level is '1.5', which is not an integer$"),
        ("level=99999999999999999999", "not an integer"),
        ("error_feedback=1", "option error_feedback is '1', must be true or false$"),
        ("fctor=1", "did you mean factor"),
    ],
)
def test_options_are_read_by_type(momentum_codec: str, options: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _core.create_codec(f"{momentum_codec}({options})")
    assert _core.create_codec(f"{momentum_codec}(factor=.25, level=-7, label=any)").name == momentum_codec


def test_loading_the_same_again_does_nothing(momentum_codec: str, momentum_path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(momentum_path, tmp_path / "copy.so"))
    before = _core.describe_codecs()
    for path in (momentum_path, copy):
        assert _core.load_codec_library(str(path)) == momentum_codec
    assert _core.describe_codecs() == before


def test_threads_may_load_at_once(momentum_codec: str, momentum_path: Path) -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.append(_core.load_codec_library(str(momentum_path)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == [momentum_codec] * 8


def test_another_codec_of_a_known_name_is_refused(momentum_codec: str, tmp_path: Path) -> None:
    other = momentum_library(tmp_path / "other.so", momentum_codec, fingerprint="second")
    with pytest.raises(InvalidArgument, match=rf"other\.so.*{momentum_codec} exists already.*another name"):
        _core.load_codec_library(str(other))


def test_another_codec_of_a_known_number_is_refused(tmp_path: Path) -> None:
    other = momentum_library(tmp_path / "other.so", "numbered_as_onebit", 16)
    with pytest.raises(InvalidArgument, match="numbered_as_onebit has number 16, which is codec onebit's"):
        _core.load_codec_library(str(other))


@pytest.mark.parametrize(
    ("macro", "block", "says"),
    [
        ("MOMENTUM_BLOCK", 0, "state 'momentum' has one value for each 0 elements; the number must divide 1024"),
        ("MOMENTUM_BLOCK", 100, "state 'momentum' has one value for each 100 elements; the number must divide 1024"),
        ("RESIDUAL_BLOCK", 4, "state 'residual' has one value for each 4 elements; a residual has one for each"),
    ],
)
def test_states_whose_blocks_no_partition_keeps_are_refused(tmp_path: Path, macro: str, block: int, says: str) -> None:
    wrong = momentum_library(tmp_path / "wrong.so", "wrong_blocks", 5001, **{macro: str(block)})
    with pytest.raises(InvalidArgument, match=says):
        _core.load_codec_library(str(wrong))


def test_files_that_are_no_codecs_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    source = tmp_path / "source.cc"
    source.write_text('extern "C" int something() { return 1; }')
    nothing = compile_library(source, tmp_path / "nothing.so")
    source.write_text(OTHER_ABI)
    other = compile_library(source, tmp_path / "other.so")
    for path, message in (
        (tmp_path / "missing.so", "does not exist or is not a file; give the path"),
        (tmp_path, "does not exist or is not a file"),
        (text, "cannot be loaded: .*build it again"),
        (nothing, "has no function hipress_codec_plugin"),
        (other, r"was built for codec interface 4711, this HiPress has \d+; build it again"),
    ):
        with pytest.raises(InvalidArgument, match=f"codec library '{path}' {message}"):
            _core.load_codec_library(str(path))


def test_a_path_without_a_folder_is_a_file_of_the_working_folder(
    momentum_codec: str, momentum_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(momentum_path.parent)
    assert _core.load_codec_library(momentum_path.name) == momentum_codec
