# SPDX-License-Identifier: Apache-2.0
"""The first steps of a warm-up use the declared codecs."""

from __future__ import annotations

from typing import Any

import pytest

from hipress.errors import InvalidArgument
from hipress.options.warmup import DGC_RATIOS, Warmup, with_ratio


def test_stages() -> None:
    assert Warmup(3).stages("onebit") == [(0, "none"), (3, "onebit")]
    assert Warmup(3, "int8").stages("onebit") == [(0, "int8"), (3, "onebit")]
    stages = Warmup(12, ratios=DGC_RATIOS).stages("dgc(momentum=0, ratio=0.0005)")
    assert [step for step, _ in stages] == [0, 2, 4, 7, 9, 12]
    assert stages[1][1] == "dgc(ratio=0.0625, momentum=0)"
    assert stages[-1][1] == "dgc(momentum=0, ratio=0.0005)"
    assert [Warmup(4, ratios=(0.5, 0.25)).ratio_at(step, 0.1) for step in range(5)] == [0.5, 0.5, 0.25, 0.25, 0.1]
    assert with_ratio("graddrop", 0.25) == "graddrop(ratio=0.25)"
    assert with_ratio("graddrop()", 0.25) == "graddrop(ratio=0.25)"
    assert with_ratio("dgc(sample_rate=0.01, ratio=1e-3)", 1.0) == "dgc(ratio=1.0, sample_rate=0.01)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "1 step or more"),
        ({"steps": True}, "1 step or more"),
        ({"steps": 2.0}, "1 step or more"),
        ({"steps": 9, "codec": "unheard"}, "unheard"),
        ({"steps": 9, "codec": "fp16", "ratios": (0.5,)}, "not both"),
        ({"steps": 9, "ratios": (0.5, 0.0)}, "above 0"),
        ({"steps": 9, "ratios": (float("nan"),)}, "above 0"),
        ({"steps": 1, "ratios": (0.5, 0.25)}, "no room"),
    ],
)
def test_warm_ups_that_are_none(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Warmup(**arguments)


def test_only_codecs_with_a_ratio_have_ratios() -> None:
    with pytest.raises(InvalidArgument, match="no option ratio"):
        Warmup(9, ratios=(0.5,)).stages("onebit")
