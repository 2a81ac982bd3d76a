# SPDX-License-Identifier: Apache-2.0
"""Plans in the line format of the original HiPress."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.plan import Plan
from hipress.secopa.plan.text_format import TextPlanOptions, lines_of, read_plan, write_plan
from tests.secopa.plan.test_plan import decision, plan

LINES = "vgg0_dense0_weight,102760448,y,12\nvgg0,bias,4096,n,1\n"


def test_lines_are_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text(LINES)
    read = read_plan(tmp_path / "plan.txt", TextPlanOptions("onebit", world=4, topology="ring"))
    assert read.specs() == {
        "vgg0_dense0_weight": Choice("onebit", "ring", 12),
        "vgg0,bias": Choice("none", "ring", 1),
    }
    assert [one.elements for one in read.decisions] == [102760448, 4096]
    assert lines_of(read) == LINES


def test_the_suffix_says_which(tmp_path: Path) -> None:
    made = plan(decision("a", reason="why"))
    write_plan(made, tmp_path / "plan.json")
    write_plan(made, tmp_path / "plan.txt")
    assert read_plan(tmp_path / "plan.json") == made == Plan.read(tmp_path / "plan.json")
    assert (tmp_path / "plan.txt").read_text() == "a,100,y,2\n"


@pytest.mark.parametrize("line", ["a,1,y", "a,1,x,1", "a,one,y,1", "a,1,y,0", ",1,y,1"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "plan.txt").write_text(f"b,1,n,1\n{line}\n")
    with pytest.raises(InvalidArgument, match="line 2: expected name,size"):
        read_plan(tmp_path / "plan.txt", TextPlanOptions("onebit", 4))


def test_two_lines_about_one_gradient_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("b,1,n,1\nb,1,n,1\n")
    with pytest.raises(InvalidArgument, match="two decisions are about 'b'"):
        read_plan(tmp_path / "plan.txt", TextPlanOptions("onebit", 4))


def test_lines_need_what_they_do_not_say(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text(LINES)
    with pytest.raises(InvalidArgument, match="do not say which codec"):
        read_plan(tmp_path / "plan.txt")


def test_what_lines_cannot_say_is_not_written() -> None:
    with pytest.raises(InvalidArgument, match=r"codecs onebit and tbq.*\.json"):
        lines_of(plan(decision("a"), decision("b", codec="tbq")))
    with pytest.raises(InvalidArgument, match="'a' in a group"):
        lines_of(plan(decision("a", group="1")))
