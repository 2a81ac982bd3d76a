# SPDX-License-Identifier: Apache-2.0
"""A codec's generated operators compile for every framework, and PyTorch's operators work when loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import hipress
from frameworks.fetch_headers import Unavailable, framework_headers
from hipress.compll import compile_builtin, compile_text
from hipress.compll.wrappers import mxnet as wrappers_mxnet
from hipress.compll.wrappers import tensorflow as wrappers_tensorflow
from hipress.compll.wrappers import torch as wrappers_torch
from hipress.compll.wrappers.codec_interface import CodecInterface, codec_interface
from hipress.errors import InvalidArgument
from tests.tiers import thorough, usually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PACKAGE = Path(hipress.__file__).parent
ONEBIT = codec_interface(compile_builtin("onebit"))
DGC = codec_interface(compile_builtin("dgc"))
TORCH_INCLUDES = Path(torch.__file__).parent / "include"
FRAMEWORKS = {"torch": wrappers_torch, "tensorflow": wrappers_tensorflow, "mxnet": wrappers_mxnet}


def framework_options(framework: str) -> list[str]:
    """The compiler's options for a framework's headers."""
    if framework == "torch":
        include = ["-isystem", str(TORCH_INCLUDES), "-isystem", str(TORCH_INCLUDES / "torch/csrc/api/include")]
        return [*include, "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    try:
        return ["-isystem", str(framework_headers(framework) / "include")]
    except Unavailable as error:
        pytest.skip(f"{framework}'s headers are missing: {error}")


def compile_cpp(source: Path, *options: str) -> None:
    flags = ["-std=c++20", "-fPIC", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", f"-I{ROOT}"]
    command = ["c++", *flags, *options, "-fsyntax-only", str(source)]  # with errors of templates, and no code
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def link(library: Path, sources: tuple[Path, ...], options: list[str]) -> None:
    command = ["c++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", *map(str, sources), *options]
    command += [str(PACKAGE / "libhipress.so"), "-Wl,--allow-shlib-undefined", "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def write(codec: CodecInterface, framework: ModuleType, folder: Path) -> tuple[Path, Path]:
    kernels, registration = folder / f"{codec.name}_kernels.cc", folder / f"{codec.name}_registration.cc"
    kernels.write_text(framework.wrapper(codec))
    registration.write_text(framework.registration(codec))
    return kernels, registration


def test_the_interface_of_a_program() -> None:
    assert ONEBIT.states == ("residual",)
    assert DGC.states == ("velocity", "residual")
    assert DGC.options[1:] == (
        ("ratio", "0.001", "double"),
        ("sample_rate", "0.001", "double"),
        ("error_feedback", "true", "bool"),
        ("residual_factor", "1", "float"),
        ("gradient_factor", "1", "float"),
    )
    assert codec_interface(compile_builtin("terngrad")).states == ()


def test_a_state_with_the_name_of_an_argument_gets_another() -> None:
    assert CodecInterface("x", ("step", "kept")).arguments == ("step_state", "kept")
    assert CodecInterface("tern_grad").title == "TernGrad"


def test_a_name_that_frameworks_do_not_take() -> None:
    program = compile_text("void MähEncode(float* g, uint8* c) { c = concat(g); }", complete=False)
    with pytest.raises(InvalidArgument, match="'mäh' is no name for operators"):
        codec_interface(program)


@pytest.mark.parametrize("codec", [ONEBIT, thorough(DGC)], ids=lambda codec: codec.name)
@pytest.mark.parametrize("framework", usually(["torch", "mxnet"], FRAMEWORKS))
def test_what_is_written_compiles(framework: str, codec: CodecInterface, tmp_path: Path) -> None:
    options = framework_options(framework)
    files = write(codec, FRAMEWORKS[framework], tmp_path)
    # One file includes both files, so the framework's headers are read once. The first of them must include all its
    # headers.
    both = tmp_path / "both.cc"
    both.write_text("".join(f'#include "{file}"\n' for file in (files if codec is ONEBIT else reversed(files))))
    compile_cpp(both, *options)


@pytest.mark.thorough
def test_mxnets_extension_library_links(tmp_path: Path) -> None:
    options = framework_options("mxnet")
    interface = framework_headers("mxnet") / "src" / "lib_api.cc"
    sources = (*write(DGC, wrappers_mxnet, tmp_path), interface)
    link(tmp_path / "dgc.so", sources, [f"-I{interface.parents[1]}/include/mxnet", *options])


def test_pytorchs_schemas_are_those_made_at_run_time() -> None:
    from hipress.torch import codec_operators  # noqa: F401

    for schema in wrappers_torch.schemas(ONEBIT):
        written = torch._C.parse_schema(f"hipress::{schema}")
        operator = getattr(torch.ops.hipress, written.name.removeprefix("hipress::"))
        assert str(operator.default._schema) == str(written)


_USE = """
import sys
import torch
from hipress._library import load_core

core = load_core()
torch.ops.load_library(sys.argv[1])
operators = torch.ops.hipress
values, residual = torch.randn(10, 10), torch.zeros(10, 10)
message = operators.onebit_encode(values, residual)
assert message.numpy().tobytes() == core.create_codec("onebit").encode(values.numpy().reshape(-1))
decoded = operators.onebit_decode(message, 100)
torch.testing.assert_close(decoded.view(10, 10) + residual, values)
total = decoded.clone()
operators.onebit_decode_accumulate(message, total)
assert torch.equal(total, 2 * decoded)
try:
    operators.onebit_encode(values, options="feedback=true")
except RuntimeError as error:
    assert "has no option 'feedback'" in str(error)

# The package has the operators of the other codecs, and does not change this one.
from hipress.torch import codec_operators

codec_operators.register_fakes("onebit")
torch.compile(lambda g: operators.onebit_encode(g, residual), fullgraph=True, backend="aot_eager")(values)
assert operators.fp16_encode(values).shape == (200,)
print("fine")
"""


def test_pytorchs_operators_work_when_loaded(tmp_path: Path) -> None:
    library = tmp_path / "onebit.so"
    libraries = [str(Path(torch.__file__).parent / "lib" / name) for name in ("libtorch_cpu.so", "libc10.so")]
    link(library, write(ONEBIT, wrappers_torch, tmp_path), [*framework_options("torch"), *libraries])
    # This process already has operators with that name, so another process loads them.
    use = [sys.executable, "-c", _USE, str(library)]
    done = subprocess.run(use, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.stdout == "fine\n", done.stderr
