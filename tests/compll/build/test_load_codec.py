# SPDX-License-Identifier: Apache-2.0
"""A codec loaded by `hipress.load_codec` gives the interpreter's bytes, is compiled only when necessary, and has typed
errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hipress
from hipress import _core
from hipress.compll import CompileError
from hipress.compll.build.codec import library_of, read_codec
from hipress.errors import HipressError, InvalidArgument, Timeout, Unsupported
from tests.compll.build import compilers
from tests.compll.programs import ROOT, codec, normal
from tests.tiers import thorough

SIZES = [0, 1, 15, 16, 17, 127, 128, 129, 1000, 4095, 4096, 4097, 33_000, 262_145]

COMPILER = os.environ.get("CXX", "")

#: A short codec; NAME is replaced by its name.
PROGRAM = """\
// Sends every value raw.
void NAMEEncode(float* gradient, uint8* compressed) { compressed = concat(gradient); }
void NAMEDecode(uint8* compressed, float* gradient) {
    extract(compressed, float value[gradient.size]);
    gradient = value;
}
"""


def program(folder: Path, name: str, comment: str = "") -> Path:
    path = folder / f"{name}.cll"
    path.write_text(PROGRAM.replace("NAME", name.capitalize()) + comment)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that all tests of the session share."""
    folder = tmp_path_factory.getbasetemp() / "codecs"
    monkeypatch.setenv("HIPRESS_CACHE", str(folder))
    monkeypatch.setenv("CXX", str(compilers.quick(tmp_path_factory.getbasetemp())))
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The same program in all tests, so it is compiled once."""
    return program(tmp_path, "plain")


@pytest.fixture
def library(plain: Path) -> Path:
    """The library of the program `plain`."""
    hipress.load_codec(plain)
    return library_of(read_codec(plain))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("blockquant4", {}),
        ("blockquant4", {"block": 32}),
        thorough("adacomp", {}),
        thorough("adacomp", {"bin": 50, "limit": 0.2}),
        thorough("natural_dithering", {"block": 100}),
        thorough("threelc", {"sparsity": 1.5}),
    ],
)
def test_examples_do_what_the_interpreter_does(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", COMPILER)
    assert hipress.load_codec(ROOT / "examples" / "compll" / f"{name}.cll") == name
    loaded = _core.create_codec(f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})")
    definition = codec(name, **options)
    for count in SIZES:
        states = {state: np.zeros(count, np.float32) for state in loaded.states}
        expected_states = definition.new_state(count)
        for step in range(2):
            gradient = normal(count, step)
            expected = definition.encode(gradient, expected_states, seed=1, step=step, scale=0.5)
            message = loaded.encode(gradient, states, seed=1, step=step, scale=0.5, threads=1 + step)
            assert message == expected, (count, step)
            assert len(message) <= loaded.max_encoded_bytes(count) == definition.max_encoded_bytes(count)
            for state, values in states.items():
                assert values.tobytes() == expected_states[state].tobytes()
        decoded, total = definition.decode(expected, count), np.ones(count, np.float32)
        assert loaded.decode(expected, count).tobytes() == decoded.tobytes()
        loaded.decode_into(expected, total, accumulate=True)
        np.testing.assert_array_equal(total, decoded + 1)


@pytest.mark.slow
def test_what_is_loaded_is_described_and_signed(plain: Path) -> None:
    assert hipress.load_codec(str(plain)) == "plain"
    description = next(known for known in _core.describe_codecs() if known["name"] == "plain")
    assert description["summary"] == "Sends every value raw."
    assert description["id"] >= 1024
    assert _core.create_codec("plain").signature.startswith("plain#")


def test_the_same_program_again_and_elsewhere_is_no_other(library: Path, plain: Path, cache: Path) -> None:
    known, kept = _core.describe_codecs(), sorted(cache.iterdir())
    copy = plain.with_name("copy.cll")
    copy.write_bytes(plain.read_bytes())
    for path in (plain, copy, library):
        assert hipress.load_codec(path) == "plain"
    assert (_core.describe_codecs(), sorted(cache.iterdir())) == (known, kept)


@pytest.mark.slow
def test_another_program_of_a_loaded_name_is_refused(library: Path, tmp_path: Path) -> None:
    other = program(tmp_path, "plain", "// Another text.\n")
    with pytest.raises(InvalidArgument, match=rf"^{other}: .*codec plain exists already and is another one"):
        hipress.load_codec(other)


def test_a_wrong_program_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cll"
    wrong.write_text("void WrongEncode(float* gradient, uint8* compressed) { compressed = concat(x); }")
    with pytest.raises(CompileError, match=rf"^{wrong}:1:\d+: error: "):
        hipress.load_codec(wrong)
    wrong.write_text("void WrongEncode(float* gradient, uint8* compressed) { compressed = concat(gradient); }")
    with pytest.raises(CompileError, match="WrongDecode"):
        hipress.load_codec(wrong)
    with pytest.raises(InvalidArgument, match="cannot read"):
        hipress.load_codec(tmp_path / "missing.cll")
    with pytest.raises(InvalidArgument, match=r"missing\.so.*does not exist"):
        hipress.load_codec(tmp_path / "missing.so")


@pytest.mark.slow
@pytest.mark.thorough
def test_what_is_loaded_has_code_for_the_level_of_this_process_alone(plain: Path) -> None:
    """A library for other machines has code for every level."""
    codec = read_codec(plain)
    here, anywhere = library_of(codec), library_of(codec, every_level=True)
    levels = _core.isa_levels()
    assert (here.stat().st_size < anywhere.stat().st_size) == (len(levels) > 1)
    for level in levels:
        program = (
            "import hipress, numpy, sys; hipress.load_codec(sys.argv[1]); codec = hipress._core.create_codec('plain'); "
            "print(len(codec.encode(numpy.ones(1000, numpy.float32), {})))"
        )
        use = [sys.executable, "-c", program, str(plain)]
        variables = {**os.environ, "HIPRESS_ISA": level}
        done = subprocess.run(use, capture_output=True, text=True, timeout=120, check=False, env=variables)
        assert done.stdout == "4000\n", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(len(_core.isa_levels()) < 2, reason="this processor has one instruction-set level")
def test_what_was_loaded_is_refused_at_a_lower_level() -> None:
    assert hipress.load_codec(ROOT / "examples" / "compll" / "signsgd.cll") == "signsgd"
    signs = _core.create_codec("signsgd")
    before = _core.isa_level()
    _core.set_isa_level("generic")
    try:
        with pytest.raises(InvalidArgument, match=f"compiled for instruction-set level '{before}' alone"):
            signs.encode(normal(1000, 0), {})
    finally:
        _core.set_isa_level(before)


@pytest.mark.slow
def test_processes_that_start_together_compile_once(library: Path, plain: Path, tmp_path: Path) -> None:
    compiler = compilers.counting(tmp_path / "compiler", library, before="sleep 1")
    use = [sys.executable, "-c", "import hipress, sys; print(hipress.load_codec(sys.argv[1]))", str(plain)]
    environment = compilers.environment(tmp_path / "cache", compiler)
    processes = [subprocess.Popen(use, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["plain\n"] * 4
    assert compilers.count(compiler) == 1


def test_threads_that_load_together_compile_once(
    library: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compilers.counting(tmp_path / "compiler", library, before="sleep 0.3")
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(hipress.load_codec(plain))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (names, compilers.count(compiler)) == (["plain"] * 4, 1)


def test_what_is_compiled_anew(library: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, compiler = tmp_path / "cache", compilers.counting(tmp_path / "compiler", library)
    monkeypatch.setenv("HIPRESS_CACHE", str(cache))
    monkeypatch.setenv("CXX", str(compiler))

    def compilations() -> int:
        before = compilers.count(compiler)
        assert hipress.load_codec(plain) == "plain"
        return compilers.count(compiler) - before

    assert [compilations(), compilations()] == [1, 0]
    (kept,), (checksum,) = cache.glob("*.so"), cache.glob("*.sha256")
    whole = kept.read_bytes()
    for damage in (
        lambda: kept.write_bytes(whole[: len(whole) // 2]),
        lambda: kept.write_bytes(b""),
        lambda: kept.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]),
        kept.unlink,
        checksum.unlink,
        lambda: checksum.write_bytes(b"\xff"),
    ):
        # The test makes a new file with the old name, because this process has mapped the old file.
        if kept.exists():
            kept.unlink()
            kept.write_bytes(whole)
        damage()
        assert [compilations(), compilations()] == [1, 0]
        assert kept.read_bytes() == whole
    # A new version of the compiler compiles again, and so does another compiler with the same version.
    compiler.write_text(compiler.read_text().replace("version 1.0", "version 1.1"))
    assert [compilations(), compilations()] == [1, 0]
    monkeypatch.setenv("CXX", f"{compiler} -O3")
    assert [compilations(), compilations()] == [1, 0]
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []


def test_without_a_compiler(tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match=r"C\+\+20 compiler is needed.*apt install g\+\+.* build --library"):
        hipress.load_codec(plain)
    monkeypatch.setenv("CXX", "nothing-like-it -m64")
    with pytest.raises(Unsupported, match="CXX is nothing-like-it -m64, and there is no such program"):
        hipress.load_codec(plain)
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(Unsupported, match="the compiler does not work: /bin/false -v ended with 1"):
        hipress.load_codec(plain)


def test_what_does_not_compile_is_a_defect_with_a_log(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compilers.script(tmp_path / "compiler", "echo note; echo 'plain.cc:1: error: something' >&2; exit 1")
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(HipressError, match=r"error: something.*stand-in version 1\.0.*defect of HiPress") as caught:
        hipress.load_codec(plain)
    log = Path(str(caught.value).rpartition(" ")[2])
    for part in (f"{compiler} -std=c++20", "stand-in version 1.0", "note", "namespace hipress::generated::codec_plain"):
        assert part in log.read_text()
    assert not list(log.parent.glob("*.so"))


def test_a_compiler_that_does_not_end(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the compiler has started end, too; a real compiler's work is in such processes."""
    alive = tmp_path / "alive"
    compiler = compilers.script(tmp_path / "compiler", f'(sleep 2; touch "{alive}") & wait')
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    start = time.monotonic()
    with pytest.raises(Timeout, match=r"compiler.* was not ready after 0\.5 s"):
        hipress.load_codec(plain, timeout=0.5)
    assert time.monotonic() - start < 1.9
    time.sleep(2.5)
    assert not alive.exists()
