# SPDX-License-Identifier: Apache-2.0
"""The command line: its output, the time that its import takes, and the loading of the core."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hipress import _library
from hipress.errors import TransportError
from tests.launch.conftest import HIPRESS, PATIENCE, clean_environment


def hipress(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HIPRESS, *arguments], env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE
    )


def test_version() -> None:
    done = hipress("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("hipress ")


def test_help_names_the_commands() -> None:
    done = hipress("--help")
    assert done.returncode == 0
    assert "run" in done.stdout
    assert "doctor" in done.stdout


def test_no_line_of_a_list_of_commands_is_cut() -> None:
    for group in ((), ("plan",), ("compll",)):
        done = hipress(*group, "--help")
        assert done.returncode == 0
        assert "..." not in done.stdout.replace("[ARGS]...", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hipress be", {"bench"}),
        ("hipress bench --save", {"--save-profile", "--save-plan"}),
        ("hipress plan sh", {"show"}),
        ("hipress run --pre", {"--prefix"}),
    ],
)
def test_the_shell_completes_commands_and_their_options(words: str, expected: set[str]) -> None:
    asked = {"_HIPRESS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    # The shell runs the installed program, because completion asks for the program's name.
    program = Path(sys.executable).parent / "hipress"
    done = subprocess.run(
        [program], env={**clean_environment(), **asked}, capture_output=True, text=True, timeout=PATIENCE
    )
    assert set(done.stdout.split()) == expected, done.stderr


def test_help_of_run_names_the_options() -> None:
    text = hipress("run", "--help").stdout
    for option in (
        "-np",
        "-H",
        "--launcher",
        "--env",
        "--timeout",
        "--grace",
        "--no-prefix",
        "--output-dir",
        '"[rank] "',
    ):
        assert option in text


def test_an_unknown_option_is_an_error_and_not_a_command() -> None:
    done = hipress("run", "-np", "1", "--no-such", "true")
    assert done.returncode == 2
    assert "--no-such" in done.stderr


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    script = "import sys, hipress.cli.main, hipress.launch.launcher; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "numpy", "tensorflow", "hipress._core", "libucx"} & set(done.stdout.split())


class TestLoadCore:
    """If the core does not load, the error gives the reason and the remedy."""

    @staticmethod
    def load(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | Exception) -> ModuleType:
        def fake(name: str) -> ModuleType:
            found = modules[name.replace(".", "_")]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(importlib, "import_module", fake)
        return _library.load_core.__wrapped__()  # the core of this process is loaded

    @staticmethod
    def libucx(loaded: list[str]) -> ModuleType:
        module = ModuleType("libucx")
        module.load_library = lambda: loaded.append("ucx")  # type: ignore[attr-defined]
        return module

    def test_ucx_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded: list[str] = []
        core = ModuleType("hipress._core")
        assert self.load(monkeypatch, libucx=self.libucx(loaded), hipress__core=core) is core
        assert loaded == ["ucx"]

    def test_the_systems_ucx_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        core = ModuleType("hipress._core")
        assert self.load(monkeypatch, libucx=ImportError("No module named 'libucx'"), hipress__core=core) is core

    def test_no_ucx(self, monkeypatch: pytest.MonkeyPatch) -> None:
        missing = ImportError("libucp.so.0: cannot open shared object file")
        with pytest.raises(TransportError, match=r"libucp.so.0.*pip install libucx-cu12"):
            self.load(monkeypatch, libucx=ImportError("No module named 'libucx'"), hipress__core=missing)

    def test_an_old_ucx(self, monkeypatch: pytest.MonkeyPatch) -> None:
        old = ImportError("libucp.so.0: undefined symbol: ucp_x")
        with pytest.raises(TransportError, match=r"undefined symbol.*--upgrade libucx-cu12"):
            self.load(monkeypatch, libucx=self.libucx([]), hipress__core=old)

    def test_no_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        absent = ModuleNotFoundError("No module named 'hipress._core'", name="hipress._core")
        with pytest.raises(TransportError, match="not a complete installation"):
            self.load(monkeypatch, libucx=self.libucx([]), hipress__core=absent)

    def test_a_core_for_another_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(TransportError, match=r"GLIBC_9.*Build it for this system"):
            self.load(monkeypatch, libucx=self.libucx([]), hipress__core=ImportError("version GLIBC_9 not found"))
