# SPDX-License-Identifier: Apache-2.0
"""The models of the paper and of its released script give the published results."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.models.paper import PaperModel
from hipress.secopa.models.registry import make_model
from hipress.secopa.models.released import ReleasedModel, curve_for
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.plan import Decision
from hipress.secopa.planners.independent import plan_independently
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import read_profile
from tests.secopa.profiles import codec, profile

MIB = 2**20
PUBLISHED = read_profile("sosp21-56g")


def released(topology: str, nodes: int, size: float, **options: Any) -> Decision:
    """The released script's decision about a gradient of `size` MiB."""
    model = ReleasedModel(PUBLISHED, nodes)
    gradient = Gradient(name="g", elements=round(size * MIB / 4))
    made = plan_independently(
        GradientSet(gradients=(gradient,)), model, PlanningOptions(topologies=(topology,), **options)
    )
    return made.decisions[0]


@pytest.mark.parametrize(
    ("topology", "nodes", "threshold"),
    [("ps", 4, 2.61), ("ps", 8, 4.86), ("ps", 16, 9.42), ("ring", 4, 2.57), ("ring", 8, 4.39), ("ring", 16, 8.19)],
)
def test_compression_starts_where_it_did(topology: str, nodes: int, threshold: float) -> None:
    assert released(topology, nodes, threshold - 0.01).codec == "none"
    assert released(topology, nodes, threshold + 0.01).codec == "tbq"


@pytest.mark.parametrize(("size", "partitions"), [(16, 6), (392, 16)])
def test_partitions_of_the_papers_table_7(size: int, partitions: int) -> None:
    decided = released("ps", 16, size)
    assert (decided.codec, decided.partitions) == ("tbq", partitions)


def test_vgg19s_largest_gradient_takes_what_it_did() -> None:
    decided = released("ps", 16, 392)
    assert decided.predicted_uncompressed_s == pytest.approx(167.9e-3, abs=5e-5)
    assert decided.predicted_s == pytest.approx(18.9e-3, abs=5e-5)
    assert decided.reason == "takes 18.9 ms, and 168 ms uncompressed"


def test_between_measured_numbers_of_nodes_constants_are_on_a_line() -> None:
    assert PUBLISHED.collectives is not None
    gather = PUBLISHED.collectives.ps_gather
    assert curve_for(gather, 8) == gather[8]
    for nodes, share, low, high in (
        (6, 0.5, 4, 8),
        (12, 0.5, 8, 16),
        (14, 0.75, 8, 16),
        (2, -0.5, 4, 8),
        (32, 3, 8, 16),
    ):
        curve = curve_for(gather, nodes)
        for constant in ("s_per_byte", "fixed_s", "overhead_s"):
            one, other = getattr(gather[low], constant), getattr(gather[high], constant)
            assert getattr(curve, constant) == pytest.approx(one + share * (other - one)), (nodes, constant)


def test_thresholds_grow_with_the_number_of_nodes() -> None:
    def threshold(nodes: int) -> float:
        sizes = [size / 8 for size in range(1, 400)]
        return sizes[bisect_left(sizes, True, key=lambda size: released("ps", nodes, size).codec != "none")]

    found = [threshold(nodes) for nodes in (3, 4, 6, 8, 12, 16, 24, 64)]
    assert found == sorted(found)
    assert found[2] == pytest.approx((found[1] + found[3]) / 2, rel=0.1)


def test_one_number_of_nodes_says_nothing_about_others() -> None:
    assert PUBLISHED.collectives is not None
    with pytest.raises(InvalidArgument, match="for 4 hosts only; it has none for 5"):
        curve_for({4: PUBLISHED.collectives.ps_gather[4]}, 5)


def test_released_sums_by_hand() -> None:
    measured = profile({"half": codec(0.5, 1e9)}, bandwidth=1e8, latency=1e-3, sums=1e10)
    model = ReleasedModel(measured, 4)
    mb, elements = 1e6, 1_000_000
    # gather and broadcast of 1 MB partitions through one link, and the merge of the other three ranks' contributions
    assert model.gradient_s(elements, Choice("none", "ps", 4)) == pytest.approx(
        2 * (1e-3 + 3 * mb / 1e8) + 3 * mb / 1e10
    )
    # messages of half the size, 4 encodes (min(K+1, N)) and 6 decodes (min(N−1+K, 2(N−1)))
    assert model.gradient_s(elements, Choice("half", "ps", 4)) == pytest.approx(
        2 * (1e-3 + 3 * mb / 2 / 1e8) + (4 + 6) * mb / 1e9 + 3 * mb / 1e10
    )
    assert model.gradient_s(elements, Choice("half", "ps", 1)) == pytest.approx(
        2 * (1e-3 + 3 * 2 * mb / 1e8) + (2 + 4) * 4 * mb / 1e9 + 3 * 4 * mb / 1e10
    )
    assert model.gradient_s(elements, Choice("half", "ring", 4)) == pytest.approx(
        6 * (1e-3 + mb / 2 / 1e8) + 8 * mb / 1e9 + 3 * mb / 1e10
    )


def test_equations_of_the_paper_by_hand() -> None:
    model = PaperModel(profile({"half": codec(0.5, 1e9)}, bandwidth=1e8, latency=1e-3), 4)
    mb, elements = 1e6, 1_000_000
    assert model.gradient_s(elements, Choice("none", "ps", 4)) == pytest.approx(6 * (1e-3 + mb / 1e8))
    assert model.gradient_s(elements, Choice("half", "ps", 2)) == pytest.approx(
        6 * (1e-3 + mb / 1e8) + (2 + 4) * 2 * mb / 1e9
    )
    assert model.gradient_s(elements, Choice("half", "ring", 2)) == pytest.approx(
        6 * (1e-3 + mb / 1e8) + (4 + 4) * 2 * mb / 1e9
    )
    # K > N needs ⌈K/N⌉ batches
    assert model.gradient_s(elements, Choice("half", "ps", 8)) == pytest.approx(
        2 * (6 * (1e-3 + mb / 4 / 1e8) + (4 + 4) * mb / 2 / 1e9)
    )


def test_the_paper_waits_for_the_slowest_link() -> None:
    places = [{"host": host, "machine": host, "cores": 1} for host in "abc"]
    slow = {"source": "c", "destination": "a", "costs": {"latency_s": 0, "bandwidth_bytes_per_s": 1e6}}
    content = {**profile().model_dump(), "ranks": places, "links": [slow]}
    mixed = type(PUBLISHED).model_validate(content)
    assert PaperModel(mixed, 3).send_s(1e6) == pytest.approx(1.0)
    assert PaperModel(mixed, 2).send_s(1e6) == PaperModel(profile(), 2).send_s(1e6)


@pytest.mark.parametrize("name", ["paper", "released"])
def test_a_step_is_gradient_after_gradient(name: str) -> None:
    model = make_model(name, profile(), 4)
    gradients = GradientSet(
        backward_s=1.0,
        gradients=(
            Gradient(name="first", elements=1000, release_s=1.0),
            Gradient(name="last", elements=10_000_000, release_s=0.2),
            Gradient(name="half", elements=1000, dtype="float16", release_s=0.5),
        ),
    )
    choices = [Choice(), Choice("onebit", "ring", 4), Choice()]
    step = model.step(gradients, choices)
    last_s = 0.2 + model.gradient_s(10_000_000, choices[1])
    half_s = max(last_s, 0.5) + model.gradient_s(500, choices[2])
    first_s = max(half_s, 1.0) + model.gradient_s(1000, choices[0])
    assert [times.end_s for times in step.gradients] == pytest.approx([first_s, last_s, half_s])
    assert (step.step_s, step.backward_s) == (pytest.approx(first_s), 1.0)
    # Each rank sends 2(N−1)/N of the encoded size of each gradient.
    assert step.sent_bytes == (round(1.5 * (4000 + 40_000_000 / 32 + 2000)),) * 4


@pytest.mark.parametrize("name", ["paper", "released"])
def test_a_group_travels_as_one_when_its_last_member_is_there(name: str) -> None:
    model = make_model(name, profile(), 4)
    one, other = Gradient(name="a", elements=600, release_s=0.5), Gradient(name="b", elements=400, release_s=0.1)
    together = Choice("none", "ps", 1, "g")
    step = model.step(GradientSet(gradients=(one, other)), [together, together])
    assert step.step_s == pytest.approx(0.5 + model.gradient_s(1000, Choice()))
    assert step.gradients[0] == step.gradients[1]
    with pytest.raises(InvalidArgument, match="group 'g': 'a' and 'b' differ in codec"):
        model.step(GradientSet(gradients=(one, other)), [together, together._replace(codec="onebit")])


@pytest.mark.parametrize("name", ["paper", "released"])
def test_one_rank_waits_for_nobody(name: str) -> None:
    assert make_model(name, PUBLISHED, 1).gradient_s(10**6, Choice("tbq")) == 0.0


def test_what_the_models_do_not_know_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="model paper knows the topologies ps and ring, not allgather"):
        make_model("paper", PUBLISHED, 4).gradient_s(1, Choice("tbq", "allgather"))
    with pytest.raises(InvalidArgument, match="no cost model 'guess'; there are: timeline, paper, released"):
        make_model("guess", PUBLISHED, 4)
    with pytest.raises(InvalidArgument, match="one rank at least"):
        make_model("paper", PUBLISHED, 0)
