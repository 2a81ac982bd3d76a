# SPDX-License-Identifier: Apache-2.0
"""A report shows a training's steps, the time of each gradient, where the time went, and the bytes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.quantities import seconds, size
from hipress.secopa.report.markup import element, table
from hipress.secopa.report.page import page
from hipress.secopa.report.run import Run
from hipress.secopa.report.shares import shares_of
from hipress.secopa.report.steps import gradient_seconds, training_steps
from hipress.secopa.report.timeline_figure import timeline
from hipress.secopa.report.trace import read_trace
from hipress.secopa.report.traffic import total, traffic_of
from tests.launch.conftest import HIPRESS, clean_environment
from tests.secopa.profiles import linked, low_rank, profile
from tests.secopa.report.traces import Written, recorded, training


def decision(name: str, group: str | None = None, predicted_s: float = 0.009, elements: int = 8000) -> Decision:
    return Decision(
        name=name,
        elements=elements,
        codec="onebit",
        topology="ps",
        partitions=1,
        group=group,
        predicted_s=predicted_s,
        predicted_uncompressed_s=0.02,
        reason=f"{name} is worth it",
    )


def plan(*decisions: Decision) -> Plan:
    return Plan(
        made_by="a test",
        model="two layers",
        world=2,
        topology="ps",
        predicted_step_s=0.027,
        predicted_uncompressed_step_s=0.04,
        decisions=decisions,
    )


def test_a_gradient_that_travels_as_two_linked_tensors_fits_the_trace(tmp_path: Path) -> None:
    names = ("large (statistics)", "large (levels)", "small")
    planned = plan(decision("large"), decision("small"))
    every = profile().model_copy(update={"linked": {"shared": linked(4e9), "factors": low_rank(4e9)}})
    said = page(Run(read_trace(training(tmp_path / "trace.json", names)), planned, every))
    for text in ("large (levels)", "shared", "factors"):
        assert text in said


def test_steps_are_those_of_the_tensors_that_have_most(tmp_path: Path) -> None:
    steps = training_steps(read_trace(training(tmp_path / "trace.json")))
    assert [round(step.seconds, 6) for step in steps] == [0.03] * 3
    assert all(set(step.gradients()) == {"large", "small"} for step in steps)


def test_a_gradient_takes_from_when_it_is_sent_until_all_have_the_average(tmp_path: Path) -> None:
    steps = training_steps(read_trace(training(tmp_path / "trace.json")))
    # Rank 0 adds the contributions and encodes the sum 4 ms later. This does not tell when its own values were ready,
    # so it does not count.
    assert gradient_seconds(steps) == pytest.approx({"large": 0.008, "small": 0.008})


def test_a_tensor_that_is_agreed_on_anew_goes_on(tmp_path: Path) -> None:
    written = Written()
    for number, step in enumerate((0, 1, 2, 0, 1)):
        written.exchange("w", step, 100.0 * number, raw=8, encoded=4)
    steps = training_steps(read_trace(written.write(tmp_path / "trace.json")))
    assert [round(step.start_s, 6) for step in steps] == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_time_goes_to_what_hides_the_rest(tmp_path: Path) -> None:
    step = training_steps(read_trace(training(tmp_path / "trace.json")))[1]
    shares = shares_of(step)
    assert shares.step_s == pytest.approx(0.03)
    # On rank 1, backward counts until the last gradient is encoded. Rank 0 only adds, so its whole backward counts.
    assert shares.gradients_s == pytest.approx((0.02 + 0.03) / 2)
    # After 20 ms rank 1 encodes for 1 ms, sends for 2, waits 2 for the sum, receives for 2, decodes for 1, and waits
    # for the end of backward.
    assert shares.compute_s == pytest.approx(0.002 / 2)
    assert shares.network_s == pytest.approx(0.004 / 2)
    assert shares.waiting_s == pytest.approx(0.004 / 2)


def test_bytes_saved_are_those_of_the_same_messages_uncompressed(tmp_path: Path) -> None:
    step = training_steps(read_trace(training(tmp_path / "trace.json")))[0]
    traffic = traffic_of(step)
    # Each of two ranks sends a message.
    assert (traffic["small"].raw_bytes, traffic["small"].sent_bytes, traffic["small"].messages) == (32000, 1000, 1)
    assert total(traffic).saved_bytes == 32000 + 64000 - 2000


def test_a_recorded_trace_is_read(tmp_path: Path) -> None:
    run = Run(read_trace(recorded(tmp_path / "trace.json", ["a", "b"], 100_000)))
    # Without a plan, the trace gives the codec.
    assert {outcome.codec for outcome in run.outcomes} == {"onebit"}
    assert "not in" not in page(run)
    assert run.trace.ranks == (0, 1)
    assert len(run.steps) == 3  # the report leaves out the first step
    assert {one.label for one in run.outcomes} == {"a", "b"}
    # There are two tensors of 400 KB. Each rank sends half of each as its contribution, and half as the sum.
    assert run.traffic.raw_bytes == 800_000
    assert 1 / 33 < run.traffic.sent_bytes / run.traffic.raw_bytes < 1 / 31
    assert 0 < run.shares.step_s == pytest.approx(run.step.seconds)


def test_decisions_stand_beside_what_was_measured(tmp_path: Path) -> None:
    written = Written()
    for step in range(2):
        written.exchange("weight", step, 100.0 * step, raw=320, encoded=10)
        written.exchange("biases of a, b and 1 more", step, 100.0 * step, raw=320, encoded=10)
    made = plan(decision("a", "biases"), decision("weight"), decision("b", "biases"), decision("absent"))
    run = Run(read_trace(written.write(tmp_path / "trace.json")), made)
    told = {one.label: (len(one.decisions), one.measured_s) for one in run.outcomes}
    assert told == {
        "biases (2 gradients)": (2, pytest.approx(0.008)),
        "weight": (1, pytest.approx(0.008)),
        "absent": (1, None),
    }


def test_the_page_says_what_was_planned_and_what_came_of_it(tmp_path: Path) -> None:
    run = Run(read_trace(training(tmp_path / "trace.json")), plan(decision("large"), decision("small")), profile())
    said = page(run)
    for part in (
        "A training run of two layers",
        "2 processes",
        "The plan had predicted 27 ms: 10% too little; and 40 ms if nothing were compressed.",
        "large is worth it",
        "9 ms / 8 ms",
        "48.0 times as much",
        "1 Gbit/s",
    ):
        assert part in said, part
    assert "http" not in said.replace("http-equiv", "")


def test_a_prediction_without_backward_is_said_to_be_one(tmp_path: Path) -> None:
    trace = read_trace(training(tmp_path / "trace.json"))
    quick = plan(decision("large"), decision("small")).model_copy(update={"predicted_step_s": 0.004})
    said = page(Run(trace, quick))
    assert "The plan had predicted 4 ms for averaging alone; and 40 ms if nothing were compressed: the planner" in said
    assert "too little" not in said


def test_names_are_text_whatever_is_in_them(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>&\"'"
    said = page(Run(read_trace(training(tmp_path / "trace.json", ("layer", name))), plan(decision(name))))
    assert "<script" not in said
    assert said.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;") > 2


def test_many_short_spans_make_few_bars(tmp_path: Path) -> None:
    written = Written()
    for index in range(5000):
        written.span(0, "encode", 0.02 * index, 0.02 * index + 0.01, "w", 0, 100, part=index)
    written.span(0, "send", 200, 300, "w", 0, 100)
    (step,) = training_steps(read_trace(written.write(tmp_path / "trace.json")))
    figure = timeline(step)
    assert figure.count("<rect") < 50
    assert "5000 times encoding" in figure


def test_quantities_have_three_digits_and_a_unit() -> None:
    assert [seconds(value) for value in (12.3456, 0.0123456, 1.23e-5, 0.0)] == ["12.3 s", "12.3 ms", "12.3 µs", "0 µs"]
    assert [size(value) for value in (2.5e9, 1 << 20, 1234, 12)] == ["2.33 GiB", "1 MiB", "1.21 KiB", "12 B"]


def test_markup_escapes_what_is_not_markup() -> None:
    assert element("p", "a<b", element("b", "&"), class_='x"y') == '<p class="x&quot;y">a&lt;b<b>&amp;</b></p>'
    assert "<td>a&lt;b</td>" in table(["head"], [["a<b"]])


def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    for content, said in (
        ('[{"ph": "X"', "is the run over"),
        ('{"traceEvents": 1}', "no trace of HiPress"),
        ("[]", "it has no spans"),
        (json.dumps(training(file).read_text()), "no trace of HiPress"),
    ):
        file.write_text(content)
        with pytest.raises(InvalidArgument, match=said):
            read_trace(file)
    written = Written()
    written.span(0, "backward", 0, 1)
    with pytest.raises(InvalidArgument, match="no tensor"):
        training_steps(read_trace(written.write(file)))


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    file = training(tmp_path / "trace.json")
    plan(decision("large", elements=16000), decision("small")).write(tmp_path / "plan.json")
    command = [*HIPRESS, "report", "trace.json", "--plan", "plan.json", "--profile", "sosp21-56g", "-o", "page.html"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120
        )

    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 steps of 2 ranks, median 30.0 ms; wrote page.html\n"
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    file.unlink()
    failed = run()
    assert failed.returncode == 2
    assert "cannot read trace.json" in failed.stderr
