# SPDX-License-Identifier: Apache-2.0
"""What nvcc says about the generated kernels: they compile for every generation of GPUs, and spill no registers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.compll.cuda.build import NVCC, NVCC_FLAGS, emit
from tests.compll.cuda.programs import program
from tests.compll.programs import BUILTIN, EXAMPLES

ARCHITECTURES = ("80", "90", "100")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


@pytest.mark.timeout(600)
@pytest.mark.skipif(NVCC is None, reason="nvcc was not found")
def test_kernels_compile_for_all_architectures_without_spilling(tmp_path: Path) -> None:
    """One translation unit: most of the time goes to headers."""
    names = [*BUILTIN, *EXAMPLES]
    source = tmp_path / "codecs.cu"
    source.write_text("".join(f'#include "{emit(program(name), tmp_path)}"\n' for name in names))
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    report = subprocess.run(
        [
            str(NVCC),
            *NVCC_FLAGS,
            "-t",
            "2",
            "-fatbin",
            *targets,
            "-Xptxas",
            "-v",
            str(source),
            "-o",
            str(tmp_path / "x"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    entries = [match.groupdict() for match in _ENTRY.finditer(report)]
    spilling = [e for e in entries if int(e["stores"]) or int(e["loads"])]
    assert not spilling, "\n".join(f"{e['kernel']} (sm_{e['architecture']}): {e['stores']} bytes" for e in spilling)
    for name in names:
        for architecture in ARCHITECTURES:
            used = [
                int(e["registers"])
                for e in entries
                if e["architecture"] == architecture and f"codec_{name}8encoding" in e["kernel"]
            ]
            assert used, f"no report of {name} for sm_{architecture}"
            print(f"{name} sm_{architecture}: {len(used)} kernels of encode, {max(used)} registers at most")
    assert "warning" not in report, report
