# SPDX-License-Identifier: Apache-2.0
"""Private names of torch stand in one file of hipress.torch, so that one file says what a new torch can break."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.files import ROOT, tracked

ONE_FILE = "frameworks/torch/python/installed/private_names.py"
#: Private names of other packages, by the file that uses them.
OF_OTHERS = {
    "frameworks/torch/python/integrations/accelerate.py": {"_optimizers"},
    "frameworks/torch/python/integrations/torchft.py": {"_pg", "_replica_id"},
    "frameworks/torch/python/process_groups/named_gradients.py": {"_GeneratorContextManager"},
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_module_of_torch(value: object) -> bool:
    """Whether a constant may be the name of a module, for import_module()."""
    return isinstance(value, str) and value.startswith("torch.") and " " not in value


def _named(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """The private attributes, modules and imported names of torch or of any object: line, name, whose they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            yield node.lineno, node.attr, node.value.id if isinstance(node.value, ast.Name) else ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            parts = [*str(node.module).split("."), *(each.name for each in node.names)]
            yield from ((node.lineno, part, "torch") for part in parts if _is_private(part))
        elif isinstance(node, ast.Import):
            parts = [part for each in node.names if each.name.startswith("torch.") for part in each.name.split(".")]
            yield from ((node.lineno, part, "torch") for part in parts if _is_private(part))
        elif isinstance(node, ast.Constant) and _is_module_of_torch(node.value):
            yield from ((node.lineno, part, "torch") for part in str(node.value).split(".") if _is_private(part))


def _own(trees: list[ast.AST]) -> set[str]:
    """The private names that HiPress defines."""
    names: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hipress"):
            names.update(each.name for each in node.names)
    return {name for name in names if _is_private(name)}


def touched(file: str, tree: ast.AST, own: set[str], of_torch: set[str]) -> list[str]:
    """Where a file uses a private name that HiPress does not define, or on another object a known one of torch's."""
    found = []
    for line, name, owner in _named(tree):
        foreign = name not in own or owner == "torch" or (name in of_torch and owner not in ("self", "cls"))
        if foreign and name not in OF_OTHERS.get(file, ()):
            found.append(f"{file}:{line} {name}")
    return found


def _trees(folder: str) -> dict[str, ast.AST]:
    return {file: ast.parse((ROOT / file).read_text()) for file in tracked(".py", ".pyi") if file.startswith(folder)}


@pytest.fixture(scope="module")
def known() -> tuple[set[str], set[str]]:
    """The private names of HiPress, and those of torch that ONE_FILE has."""
    trees = {**_trees("frameworks/torch/python/"), **_trees("bindings/python/"), **_trees("compll/python/")}
    one = trees.pop(ONE_FILE)
    words = (node.value for node in ast.walk(one) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return _own(list(trees.values())), {name for name in words if _is_private(name) and name.isidentifier()}


def test_only_one_file_uses_private_names_of_torch(known: tuple[set[str], set[str]]) -> None:
    trees = _trees("frameworks/torch/python/")
    assert ONE_FILE in trees
    found = [each for file, tree in trees.items() if file != ONE_FILE for each in touched(file, tree, *known)]
    assert found == [], f"give {ONE_FILE} a function for it, with the public way that replaces the name"


@pytest.mark.parametrize(
    "text",
    [
        "from torch._C._distributed_c10d import Work",
        "from torch.distributed.fsdp._fully_shard import FSDPModule",
        "import torch._dynamo",
        "torch._C._current_graph_task_id()",
        "made.tensor._version",
        "average._values()",
        'importlib.import_module("torch.distributed._composable.replicate")',
    ],
)
def test_a_private_name_elsewhere_is_found(text: str, known: tuple[set[str], set[str]]) -> None:
    assert touched("new.py", ast.parse(text), *known)


@pytest.mark.parametrize("text", ["self._values", "torch.distributed.Work", "self._average._try(1)"])
def test_a_private_name_of_hipress_is_its_own(text: str, known: tuple[set[str], set[str]]) -> None:
    assert touched("new.py", ast.parse(text), *known) == []


def test_no_exception_is_left_over() -> None:
    for file, names in OF_OTHERS.items():
        used = {name for _, name, _ in _named(ast.parse(Path(ROOT, file).read_text()))}
        assert names <= used, file
