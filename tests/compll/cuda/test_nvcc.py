# SPDX-License-Identifier: Apache-2.0
"""What nvcc says about the generated kernels: they compile for every generation of GPUs, and spill no registers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compll.cuda.build import ARCHITECTURES, NVCC, emit, kernels_without_spilling
from tests.compll.cuda.programs import program
from tests.compll.programs import BUILTIN, EXAMPLES


@pytest.mark.timeout(600)
@pytest.mark.skipif(NVCC is None, reason="nvcc was not found")
def test_kernels_compile_for_all_architectures_without_spilling(tmp_path: Path) -> None:
    """One translation unit: most of the time goes to headers."""
    names = [*BUILTIN, *EXAMPLES]
    source = tmp_path / "codecs.cu"
    source.write_text("".join(f'#include "{emit(program(name), tmp_path)}"\n' for name in names))
    entries = kernels_without_spilling(source, tmp_path / "x", "-fatbin")
    for name in names:
        for architecture in ARCHITECTURES:
            used = [
                int(e["registers"])
                for e in entries
                if e["architecture"] == architecture and f"codec_{name}8encoding" in e["kernel"]
            ]
            assert used, f"no report of {name} for sm_{architecture}"
            print(f"{name} sm_{architecture}: {len(used)} kernels of encode, {max(used)} registers at most")
