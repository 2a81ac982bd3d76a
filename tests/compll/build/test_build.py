# SPDX-License-Identifier: Apache-2.0
"""`hipress compll build` writes files that compile against the headers of the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hipress
from tests.compll.build import compilers
from tests.compll.programs import ROOT
from tests.compll.test_cli import hipress as command

PACKAGE = Path(hipress.__file__).parent
BLOCKQUANT4 = str(ROOT / "examples" / "compll" / "blockquant4.cll")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ("", "body torch_register torch_wrapper"),
        ("-b", "body"),
        ("-w -r -f mxnet", "mxnet_register mxnet_wrapper"),
        ("-b -f tensorflow", "body"),
        ("-r -f tensorflow", "tensorflow_register"),
        ("-w -f all", "mxnet_wrapper tensorflow_wrapper torch_wrapper"),
        ("--body --wrapper --register --framework torch", "body torch_register torch_wrapper"),
    ],
)
def test_files(options: str, files: str, tmp_path: Path) -> None:
    expected = [f"blockquant4_{name}.cc" for name in files.split()]
    printed = command("build", BLOCKQUANT4, *options.split(), "-o", str(tmp_path / "new" / "folder"))
    assert names(tmp_path / "new" / "folder") == expected
    assert sorted(printed.splitlines()) == [f"wrote {tmp_path}/new/folder/{name}" for name in expected]


def test_the_usual_folder_is_the_current_one(tmp_path: Path) -> None:
    use = [sys.executable, "-m", "hipress.cli", "compll", "build", BLOCKQUANT4, "-b"]
    done = subprocess.run(use, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert done.stdout == "wrote blockquant4_body.cc\n"
    assert names(tmp_path) == ["blockquant4_body.cc"]


@pytest.mark.slow
def test_wrong_programs_and_folders(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cll"
    wrong.write_text("void XEncode(")
    refused = command("build", str(wrong), "-o", str(tmp_path), code=1)
    assert refused.startswith(f"{wrong}:1:14: error: the program ends")
    assert "cannot read" in command("build", str(tmp_path / "missing.cll"), code=2)
    assert "cannot write" in command("build", BLOCKQUANT4, "-o", str(wrong), code=2)
    assert names(tmp_path) == ["wrong.cll"]
    assert "caffe" in command("build", BLOCKQUANT4, "-f", "caffe", code=2)


@pytest.mark.slow
def test_a_library_needs_no_compiler_to_be_loaded(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path_factory.getbasetemp() / "codecs"))
    monkeypatch.setenv("CXX", str(compilers.quick(tmp_path_factory.getbasetemp())))
    assert command("build", BLOCKQUANT4, "--library", "-o", str(tmp_path)) == f"wrote {tmp_path}/blockquant4.so\n"
    use = [sys.executable, "-c", "import hipress, sys; print(hipress.load_codec(sys.argv[1]))", "blockquant4.so"]
    environment = compilers.environment(tmp_path / "cache")
    done = subprocess.run(use, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=environment)
    assert done.stdout == "blockquant4\n", done.stderr
    assert names(tmp_path) == ["blockquant4.so"]


@pytest.mark.slow
def test_installed_headers_are_whole(tmp_path: Path) -> None:
    """Each installed header, except NVRTC's header, compiles alone with the installed folder alone."""
    include = PACKAGE / "include"
    headers = [
        file.relative_to(include) for file in sorted((include / "core").rglob("*.h")) if file.parent.name != "execution"
    ]
    assert len(headers) > 30
    (tmp_path / "all.cc").write_text("".join(f'#include "{header}"\n' for header in headers))
    options = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    done = subprocess.run(["c++", *options, "all.cc"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


_USE = """
import sys
import torch
from hipress._library import load_core

core = load_core()
assert core.load_codec_library(sys.argv[1]) == "blockquant4"
torch.ops.load_library(sys.argv[1])
values, residual = torch.randn(1000), torch.zeros(1000)
message = torch.ops.hipress.blockquant4_encode(values, residual, options="block=64")
assert message.numpy().tobytes() == core.create_codec("blockquant4(block=64)").encode(values.numpy())
decoded = torch.ops.hipress.blockquant4_decode(message, 1000, options="block=64")
torch.testing.assert_close(decoded + residual, values)
print("fine")
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_all_that_is_written_for_pytorch_makes_one_library(tmp_path: Path) -> None:
    command("build", BLOCKQUANT4, "-o", str(tmp_path))
    torch_root = Path(torch.__file__).parent
    options = ["-std=c++20", "-O0", "-fPIC", "-shared", "-ffp-contract=off", f"-I{PACKAGE}/include"]
    options += ["-isystem", f"{torch_root}/include", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    links = [f"{PACKAGE}/libhipress.so", f"{torch_root}/lib/libtorch_cpu.so", f"{torch_root}/lib/libc10.so"]
    build = ["c++", *options, *names(tmp_path), *links, "-Wl,--allow-shlib-undefined", "-o", "whole.so"]
    done = subprocess.run(build, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    use = [sys.executable, "-c", _USE, str(tmp_path / "whole.so")]
    done = subprocess.run(use, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    assert done.stdout == "fine\n", done.stderr
