# SPDX-License-Identifier: Apache-2.0
"""NVRTC compiles all kernels: those of the built-in codecs and of the examples for one GPU, those of four codecs for
three generations of GPUs, and those of other programs to PTX."""

from __future__ import annotations

import pytest

from hipress import _core
from hipress.compll import compile_text
from tests.compll.emit.cuda.build import (
    ARCHITECTURES,
    ROOT,
    kernels,
    kernels_of_all_architectures,
    kernels_without_spilling,
    listed,
    ptx,
)
from tests.compll.emit.cuda.programs import NAMES, program
from tests.compll.programs import BUILTIN, EXAMPLES
from tests.docs import pages
from tests.tiers import usually

pytestmark = pytest.mark.slow

ELEMENTS = dict(_core.element_kernels())


#: A codec with levels of a block, one of bits, one that selects values, and the one with most code.
ON_ALL_GPUS = ["int8", "onebit", "topk", "thc"]


@pytest.mark.parametrize("name", usually(["int8", "topk"], ON_ALL_GPUS))
def test_kernels_compile_for_all_architectures_without_spilling(name: str) -> None:
    text = kernels(program(name))
    for architecture, compiled in kernels_of_all_architectures(text).items():
        assert set(listed(text)) <= set(compiled), architecture


def test_headers_of_kernels_do_not_depend_on_the_gpu() -> None:
    """kernels_of_all_architectures() makes PTX for one GPU only."""
    for header in (ROOT / "core").rglob("*.h"):
        assert "__CUDA_ARCH__" not in header.read_text().replace("defined(__CUDA_ARCH__)", ""), header


#: Of the other codecs those whose kernels are of another kind: without blocks, with statistics, with blocks of trees.
USUAL = ["bf16", "fp4_e2m1", "int8_shared", "dynamiq"]


@pytest.mark.parametrize("name", usually(USUAL, [name for name in [*BUILTIN, *EXAMPLES] if name not in ON_ALL_GPUS]))
def test_kernels_compile_without_spilling(name: str) -> None:
    text = kernels(program(name))
    assert set(listed(text)) <= set(kernels_without_spilling(text, "90"))


#: Kernels that read and write floats, and what they do with 16 bytes at once.
WIDE = {
    "int8_encode_4": ["ld.global.nc.v4"],
    "int8_encode_states_4": ["ld.global.nc.v4", "st.v4"],
    "int8_decode_0": ["st.v4"],
    "int8_decode_accumulate_0": ["ld.v4", "st.v4"],
    "int8_sum": ["ld.v4", "st.v4"],
    "bf16_encode_0": ["ld.global.nc.v4", "st.v4"],
    "bf16_decode_0": ["ld.global.nc.v2", "st.v4"],
}


@pytest.mark.parametrize("codec", ["int8", "bf16"])
def test_a_thread_reads_and_writes_sixteen_bytes_at_once(codec: str) -> None:
    made = ptx(kernels(program(codec))).decode()
    bodies = {part.partition("(")[0]: part for part in made.split(".entry ")[1:]}
    for kernel in (kernel for kernel in WIDE if kernel.startswith(codec)):
        assert all(f"{instruction}." in bodies[kernel] for instruction in WIDE[kernel]), kernel


def all_in_ptx(text: str) -> bool:
    made, symbols = ptx(text).decode(), listed(text)
    return bool(symbols) and all(f".entry {symbol}(" in made for symbol in symbols)


@pytest.mark.parametrize("name", usually(["sorts"], [name for name in NAMES if name not in (*BUILTIN, *EXAMPLES)]))
def test_programs_with_the_rest_of_the_language_compile(name: str) -> None:
    """These programs have full sorts, branches and numbers of every kind, which no built-in codec uses."""
    assert all_in_ptx(kernels(program(name)))


@pytest.mark.parametrize("text", pages.blocks("docs/extending/codec.md", "cpp"))
def test_the_programs_of_the_page_compile(text: str) -> None:
    assert all_in_ptx(kernels(compile_text(text)))


def test_fp16_compiles() -> None:
    text = _core.create_codec("fp16").kernels
    assert text is not None
    for architecture in ARCHITECTURES:
        assert len(kernels_without_spilling(text, architecture)) == 4


@pytest.mark.parametrize(
    "kind",
    usually(
        ["copies", "conversion", "sums of levels", "merge sum"],
        ["copies", "conversion", "sums of levels", "merge sum", "merge min", "merge max", "merge product"],
    ),
)
def test_kernels_of_elements_compile(kind: str) -> None:
    # One compilation for all types, so NVRTC reads the headers once.
    text = "".join(text for title, text in ELEMENTS.items() if title.startswith(kind))
    assert set(kernels_without_spilling(text, "90")) == set(listed(text))
