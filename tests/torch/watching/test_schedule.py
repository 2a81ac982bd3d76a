# SPDX-License-Identifier: Apache-2.0
"""Windows begin soon after the start, and ever less often."""

from __future__ import annotations

import pytest

from hipress.errors import InvalidArgument
from hipress.torch.watching.samples import Samples
from hipress.torch.watching.schedule import Schedule

torch = pytest.importorskip("torch")


def test_windows_double_their_distance_up_to_every() -> None:
    schedule = Schedule(every=1000, window=20)
    starts = [step for step in range(3500) if schedule.begins(step)]
    assert starts == [20, 40, 80, 160, 320, 640, 1000, 2000, 3000]


@pytest.mark.parametrize("arguments", [{"every": 39, "window": 20}, {"every": 10, "window": 1}])
def test_windows_that_cannot_be_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        Schedule(**arguments)


def test_a_few_places_estimate_the_figures_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient, average = torch.randn(2, 100_003, generator=generator)
    found = []
    for places in (512, 10**6):
        samples = Samples({"w": (100_003, "int8"), "empty": (0, "int8")}, places, 5, torch.device("cpu"))
        samples.begin_step()
        samples.before("w", gradient)
        samples.before("empty", torch.empty(0))
        samples.after("w", average)
        samples.after("not sampled", average)
        samples.end_step(samples.own)
        found.append(samples.figures())
    few, every = found
    assert every["w"].squared_error == pytest.approx(float((average - gradient).double().square().sum()), rel=1e-6)
    assert few["w"].fresh == pytest.approx(every["w"].fresh, abs=0.2)
    assert few["w"].error == pytest.approx(every["w"].error, rel=0.2)
    assert few["empty"].error == 0
    assert every["empty"].fresh == 1
