# SPDX-License-Identifier: Apache-2.0
"""init() takes its options from the call, then from the environment, then from the defaults."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from hipress import _core, runtime
from hipress.errors import InvalidArgument
from hipress.options.runtime import RUNTIME_OPTIONS, RuntimeOptions

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in RUNTIME_OPTIONS.values():
        monkeypatch.delenv(each.variable, raising=False)


def test_init_takes_what_is_declared() -> None:
    parameters = inspect.signature(runtime.init).parameters
    assert {name: each.default for name, each in parameters.items()} == vars(RuntimeOptions())
    assert runtime.init.__doc__ is not None
    assert all(f"\n        {name}: " in runtime.init.__doc__ for name in RUNTIME_OPTIONS)


def test_an_argument_wins_over_its_variable_and_none_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_SEED", "7")
    monkeypatch.setenv("HIPRESS_NET", "lo")
    assert RuntimeOptions.from_environment().seed == 7
    assert RuntimeOptions.from_environment(seed=3, network=None).seed == 3
    assert RuntimeOptions.from_environment(seed=3, network=None).network == "lo"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("HIPRESS_TIMEOUT", "0", "HIPRESS_TIMEOUT='0' is too small: expected more than 0"),
        ("HIPRESS_SEED", "-1", "HIPRESS_SEED='-1' is too small: expected at least 0"),
        ("HIPRESS_COMPUTE_THREADS", "two", "HIPRESS_COMPUTE_THREADS='two' is not a valid int"),
        ("HIPRESS_ROUNDS", "yes", "HIPRESS_ROUNDS='yes' is not a valid bool"),
        ("HIPRESS_COORDINATOR", "rank1", "HIPRESS_COORDINATOR='rank1' does not exist; choose none or rank0"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidArgument, match=message):
        RuntimeOptions.from_environment()


def test_a_name_that_is_not_declared_is_refused() -> None:
    with pytest.raises(TypeError, match=r"init\(\) has no option 'timout'"):
        RuntimeOptions.from_environment(timout=1.0)


def test_the_engine_takes_what_is_declared_to_be_its() -> None:
    (engine,) = _core.make_local_engines(1, RuntimeOptions().of_engine())
    engine.shutdown(0.0, "")


def test_the_guides_tables_are_in_step_with_the_declarations() -> None:
    done = subprocess.run(
        [sys.executable, "docs/update_options.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
