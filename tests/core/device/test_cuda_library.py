# SPDX-License-Identifier: Apache-2.0
"""What keeps a GPU from being used is said, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress import _core
from hipress.errors import Unsupported
from tests.core.device.host_cuda import ANY_LIBRARY


def test_no_driver() -> None:
    missing = r"cuda:1 cannot be used: there is no NVIDIA driver .*libnothing\.so"
    with pytest.raises(Unsupported, match=missing) as refused:
        _core.cuda_device(1, driver="libnothing.so")
    assert "install it" in str(refused.value)


def test_no_library(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="this HiPress was built without CUDA") as refused:
        _core.cuda_device(0, driver=ANY_LIBRARY, library=str(tmp_path / "libhipress_cuda.so"))
    assert "HIPRESS_BUILD_CUDA=ON" in str(refused.value)


def test_a_library_that_does_not_load(tmp_path: Path) -> None:
    broken = tmp_path / "libhipress_cuda.so"
    broken.write_bytes(b"no library")
    with pytest.raises(Unsupported, match="does not load"):
        _core.cuda_device(0, driver=ANY_LIBRARY, library=str(broken))


def test_a_library_of_another_version() -> None:
    other = str(Path(_core.__file__).with_name("libhipress.so"))
    with pytest.raises(Unsupported, match="another version of HiPress"):
        _core.cuda_device(0, driver=ANY_LIBRARY, library=other)


@pytest.mark.skipif(not _core.built_with_cuda(), reason="this HiPress was built without CUDA")
@pytest.mark.parametrize("ordinal", [-1, 99])
def test_no_such_gpu(ordinal: int) -> None:
    with pytest.raises(Unsupported, match=rf"cuda:{ordinal} cannot be used: CUDA finds"):
        _core.cuda_device(ordinal, driver=ANY_LIBRARY)
