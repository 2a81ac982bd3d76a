# SPDX-License-Identifier: Apache-2.0
"""The guide's page on checkpoints: its PyTorch blocks run as one script, and it names the keys that are saved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/checkpoints.md"
_KEYS = """
print("keys", sorted(hp.codec_states(optimizer, exact=True)))
"""


@pytest.mark.slow
def test_the_blocks_for_pytorch_run_on_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    blocks = [block for block in pages.blocks(PAGE, "python") if not re.search("keras|mxnet", block)]
    script.write_text("\n".join(blocks) + _KEYS)
    saved = set(re.findall(r"'(weight.\w+|hipress|hipress:sum)'", pages.launch(script, ranks=2)))
    listed = set(re.findall(r"^\| `(\S+)` \|", (pages.ROOT / PAGE).read_text(), re.MULTILINE))
    assert listed == saved | {"weight:unsent", "weight/limit:block"}
