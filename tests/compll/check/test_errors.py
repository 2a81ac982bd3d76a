# SPDX-License-Identifier: Apache-2.0
"""Every program in wrong/ is refused with the message in messages/. pytest --update-golden writes the messages anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress.compll import CompileError, compile_text

HERE = Path(__file__).parent
WRONG = sorted((HERE / "wrong").glob("*.cll"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_message(path: Path, request: pytest.FixtureRequest) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(path.read_text(encoding="utf-8"), path.name)
    golden = HERE / "messages" / f"{path.stem}.txt"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(f"{caught.value}\n", encoding="utf-8")
    assert f"{caught.value}\n" == golden.read_text(encoding="utf-8")
    error = caught.value
    assert error.line > 1, "the first line of each program is the licence"
    assert error.message
    assert str(error).startswith(f"{path.name}:{error.line}:{error.column}: error: ")


def test_enough_of_them() -> None:
    assert len(WRONG) >= 30
    assert {path.stem for path in WRONG} == {path.stem for path in (HERE / "messages").glob("*.txt")}
