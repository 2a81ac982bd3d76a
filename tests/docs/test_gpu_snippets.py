# SPDX-License-Identifier: Apache-2.0
"""Code for GPUs gives each rank of a host a GPU of its own: without that all ranks use GPU 0."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs import pages

_USES_A_GPU = re.compile(r"""["']cuda\b|\.cuda\(|["']nccl["']|["']GPU["']""")
#: torch's and TensorFlow's ways, each with the number of the rank on its host.
_TAKES_ONE = re.compile(r"(set_device|set_visible_devices)\(.*(local_rank\(\)|LOCAL_RANK)")
_PAGES = [pages.ROOT / "README.md", *sorted((pages.ROOT / "docs").rglob("*.md"))]
#: They describe how the project came to be, and are not for copying.
_PAGES = [page for page in _PAGES if page.parent.name not in ("decisions", "extending")]


def _lacking(texts: dict[str, str]) -> list[str]:
    return [where for where, text in texts.items() if _USES_A_GPU.search(text) and not _TAKES_ONE.search(text)]


def test_every_snippet_for_gpus_takes_the_ranks_own() -> None:
    found: dict[str, str] = {}
    for page in _PAGES:
        name = str(page.relative_to(pages.ROOT))
        for number, (language, text) in enumerate(pages.all_blocks(name)):
            if language in ("python", "py"):
                found[f"{name}, block {number}"] = text
    assert any(_USES_A_GPU.search(text) for text in found.values())
    assert _lacking(found) == []


def test_every_example_with_a_model_takes_a_device() -> None:
    folder = pages.ROOT / "examples" / "torch"
    programs = {each.name: each.read_text() for each in sorted(folder.glob("*.py"))}
    training = {name for name, text in programs.items() if "ArgumentParser" in text or "parse_arguments(" in text}
    lacking = training - {name for name, text in programs.items() if "add_device" in text}
    assert lacking == {"demo.py", "precision_lab.py"}  # they start other programs, or compare formats on processors
    assert _lacking({name: Path(folder, name).read_text() for name in ("devices.py",)}) == []


def test_every_example_of_tensorflow_takes_the_ranks_own_gpu() -> None:
    programs = sorted((pages.ROOT / "examples" / "tensorflow").glob("*.py"))
    assert programs
    assert [each.name for each in programs if not _TAKES_ONE.search(each.read_text())] == []
