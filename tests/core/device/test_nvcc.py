# SPDX-License-Identifier: Apache-2.0
"""The device of the CUDA runtime compiles, for every generation of GPUs; its kernels spill no registers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compll.cuda.build import ARCHITECTURES, NVCC, ROOT, kernels_without_spilling

#: Policies of sums, types of conversions, and the codec's functions: by parts of the kernels' names.
KERNELS = ["FloatSumIf", "FloatSumId", "Float16Sum", "Bfloat16Sum", "LogicalOr", "WrappingSum", "ScaledIntegerSum"]
KERNELS += ["3AddI", "6NarrowI", "4fp166Encode", "4fp166Decode"]


@pytest.mark.timeout(600)
@pytest.mark.skipif(NVCC is None, reason="nvcc was not found")
def test_the_device_compiles_for_all_architectures_without_spilling(tmp_path: Path) -> None:
    """One translation unit, with the host's part."""
    source = tmp_path / "device.cu"
    files = sorted((ROOT / "core" / "device" / "cuda").glob("*.cu"))
    source.write_text("".join(f'#include "{file}"\n' for file in files))
    warnings = ("-Xcompiler", "-fPIC,-Wall,-Wextra")
    entries = kernels_without_spilling(source, tmp_path / "device.o", "-c", *warnings)
    for kernel in KERNELS:
        for architecture in ARCHITECTURES:
            found = [e for e in entries if e["architecture"] == architecture and kernel in e["kernel"]]
            assert found, f"no report of {kernel} for sm_{architecture}"
