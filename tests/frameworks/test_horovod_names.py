# SPDX-License-Identifier: Apache-2.0
"""Each row of docs/horovod_names.json is true. docs/guide/horovod.md lists its rows: which of Horovod's names are the
same in HiPress.

"Absent": the name, or its use, raises Unsupported. "Same": the name takes Horovod's arguments in Horovod's order, and
on two ranks it does what Horovod's documentation says. "Differs": the name takes the arguments, and shows the
difference. The calls are in horovod_calls.py.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from hipress.errors import HipressError, Unsupported
from hipress.horovod.absent import ABSENT
from tests.frameworks import horovod_calls
from tests.frameworks.adapters import adapter_class, present
from tests.frameworks.horovod_calls import Call, Check
from tests.frameworks.ranks import run

pytestmark = pytest.mark.slow

ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[2] / "docs" / "horovod_names.json").read_text())
MODULES = {
    "torch": ["torch"],
    "tensorflow": ["tensorflow", "tensorflow.keras", "keras"],
    "mxnet": ["mxnet"],
}
HERE = [(framework, module) for framework in present() for module in MODULES[framework]]


def rows(*kinds: str) -> list[tuple[str, str, str]]:
    return [
        (framework, module, name)
        for framework, module in HERE
        for name, row in ROWS[module].items()
        if row["is"] in kinds
    ]


def of_horovod(module: str) -> Any:
    return importlib.import_module(f"hipress.horovod.{module}")


def checks(framework: str, module: str, kind: str) -> dict[str, Check]:
    own: Any = importlib.import_module(f"tests.frameworks.horovod_{framework}")
    if kind == "differs":
        return {**horovod_calls.DIFFERS, **own.DIFFERS}
    if "keras" in module:
        return {**horovod_calls.KERAS_SAME, **own.KERAS_SAME}
    return {**horovod_calls.SAME, **own.SAME}


def called(framework: str, module: str) -> dict[str, str]:
    """Runs all checks of a module on a rank. Returns name → error text, empty if the check passed. A rank that fails
    leaves, which ends the world."""
    hvd = of_horovod(module)
    hvd.init()
    adapter = adapter_class(framework)()
    outcomes: dict[str, str] = {}
    ordered = sorted(ROWS[module], key=lambda name: name == "shutdown")
    for name in ordered:
        kind = ROWS[module][name]["is"]
        if kind == "absent":
            continue
        try:
            checks(framework, module, kind)[name](Call(hvd, adapter, name))
            outcomes[name] = ""
        except (Exception, pytest.fail.Exception):
            outcomes[name] = traceback.format_exc()
    return outcomes


@functools.cache
def world(framework: str, module: str) -> list[dict[str, str]]:
    return run(framework, called, 2, framework, module, HIPRESS_TIMEOUT="20")


@pytest.mark.parametrize(("framework", "module", "name"), rows("same", "differs"))
def test_a_name_does_what_its_row_says(framework: str, module: str, name: str) -> None:
    failures = [outcomes[name] for outcomes in world(framework, module) if outcomes[name]]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("framework", "module", "name"), rows("same", "differs"))
def test_arguments_are_horovods(framework: str, module: str, name: str) -> None:
    """HiPress's own arguments come after Horovod's, as keywords. An argument that Horovod requires may have a
    default."""
    hvd = of_horovod(module)
    assert name in hvd.__all__ or "." in name
    check_arguments(ROWS[module][name], hvd, functools.reduce(getattr, name.split("."), hvd))
    own = importlib.import_module(f"hipress.{framework}")
    if module == framework and name != "init" and hasattr(own, name):  # its init() has options of its own only
        check_arguments(ROWS[module][name], own, getattr(own, name))


def check_arguments(row: dict[str, Any], hvd: Any, function: Any) -> None:
    if "parameters" not in row:
        return
    own = list(inspect.signature(function).parameters.values())
    wanted = [text for text in row["parameters"].split(", ") if text]
    positional = [each for each in own if each.kind in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY)]
    assert not any(each.kind == each.VAR_POSITIONAL for each in own)
    names = {key: getattr(hvd, key) for key in ("Average", "Compression", "global_process_set") if hasattr(hvd, key)}
    assert [each.name for each in positional[: len(wanted)]] == [text.split("=")[0] for text in wanted]
    for parameter, text in zip(positional, wanted, strict=False):
        if "=" in text:
            assert parameter.default == eval(text.split("=", 1)[1], names), parameter
    assert all(each.default is not each.empty for each in positional[len(wanted) :])


@pytest.mark.parametrize(("framework", "module", "name"), rows("absent"))
def test_an_absent_name_is_refused_with_a_sentence(framework: str, module: str, name: str) -> None:
    def use() -> None:
        hvd = of_horovod(module)
        if name == "Adasum":
            from hipress.adapter.reduce_ops import chosen

            chosen(hvd.Adasum)
        getattr(hvd, name)(*(["[0, 1]"] if "process_set" in name else []))

    with pytest.raises(Unsupported, match=r"[:;] .*\w+ \w+"):
        use()


@pytest.mark.parametrize("module", [module for framework, module in HERE] + ["hipress"] * bool(HERE))
def test_modules_that_are_absent_cannot_be_imported_in_silence(module: str) -> None:
    parts = ["hipress.horovod.spark", "hipress.horovod.ray"] if module == "hipress" else []
    if "elastic" in ABSENT.get(module, {}):
        parts.append(f"hipress.horovod.{module}.elastic")
    for part in parts:
        with pytest.raises(Unsupported, match="HiPress has no"):
            importlib.import_module(part)


@pytest.mark.parametrize(("framework", "module"), HERE)
def test_hipress_own_modules_refuse_the_same_names(framework: str, module: str) -> None:
    own = importlib.import_module(f"hipress.{'tensorflow.keras' if module == 'keras' else module}")
    for name in ABSENT["tensorflow.keras" if module == "keras" else module]:
        with pytest.raises(Unsupported, match=name):
            getattr(own, name)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = own.nothing_of_the_kind
    assert issubclass(Unsupported, HipressError)


def test_horovod_itself_refuses_what_starts_jobs() -> None:
    horovod = importlib.import_module("hipress.horovod")
    for name in ("run", "data"):
        with pytest.raises(Unsupported, match=name):
            getattr(horovod, name)
