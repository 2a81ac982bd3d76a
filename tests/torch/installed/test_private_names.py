# SPDX-License-Identifier: Apache-2.0
"""A private name that the installed torch lacks is a sentence: which part does not work, and which versions do."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress.torch.installed import private_names as names
from tests.architecture.files import ROOT


def test_a_missing_function_says_what_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_current_graph_task_id")
    with pytest.raises(
        hp.Unsupported, match=r"averaging in backward\(\) uses torch\._C\._current_graph_task_id"
    ) as error:
        names.running_backward_pass()
    assert f"torch {torch.__version__} does not have" in str(error.value)
    assert f"tested with torch {names.TESTED}" in str(error.value)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("GradBucket", "torch._C._distributed_c10d"),
        ("ReduceScatter", "torch.distributed.fsdp._fully_shard._fsdp_api"),
    ],
)
def test_a_missing_type_says_it_when_a_module_asks(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(importlib.import_module(module), name)
    with pytest.raises(hp.Unsupported, match=re.escape(f"{module}.{name}")):
        getattr(names, name)


def test_a_type_that_nobody_has_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Grad'"):
        names.Grad  # noqa: B018


@pytest.mark.parametrize(
    ("call", "owner", "text"),
    [
        (names.joins, SimpleNamespace(), r"ddp\.compress\(\) uses SimpleNamespace\._join_config"),
        (names.place_of, SimpleNamespace(), r"fsdp uses SimpleNamespace\._module_info"),
        (names.reduce_scatter_of, SimpleNamespace(), r"compress_reduce_scatter\(\) uses .*_reduce_scatter_comm"),
        (names.scale_of, SimpleNamespace(), r"a codec with a GradScaler uses SimpleNamespace\._scale"),
    ],
)
def test_a_missing_attribute_says_what_does_not_work(call: Any, owner: Any, text: str) -> None:
    with pytest.raises(hp.Unsupported, match=text):
        call(owner)


def test_where_a_public_way_is_slower_it_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_foreach_copy_")
    into = [torch.zeros(2), torch.zeros(3)]
    names.copy_all(into, torch.arange(5.0).split([2, 3]))
    assert [each.tolist() for each in into] == [[0.0, 1.0], [2.0, 3.0, 4.0]]


def test_the_guide_names_the_tested_versions() -> None:
    assert f"with torch {names.TESTED}." in (ROOT / "docs" / "guide" / "installing.md").read_text()


def test_torch_has_all_types() -> None:
    """Also those that only a GPU or a launcher would load."""
    for name in names._TYPES:
        assert getattr(names, name).__name__ in (name, "Backend")
    assert issubclass(dist.ProcessGroupGloo, names.Backend)
