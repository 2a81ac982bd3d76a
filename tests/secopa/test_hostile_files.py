# SPDX-License-Identifier: Apache-2.0
"""A file with wrong contents is refused with one sentence, quickly, and in little memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipress.cli.main import app
from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import Plan
from hipress.secopa.plan.text_format import TextPlanOptions, read_plan
from hipress.secopa.profile.document import MOST_BYTES, MalformedFile
from hipress.secopa.profile.gradients import Gradient, read_gradients
from hipress.secopa.profile.profile import read_profile
from hipress.secopa.report.events import read_events
from hipress.secopa.report.trace import read_trace
from tests.secopa.profiles import profile
from tests.secopa.report.traces import Written, training

DECISION = {"name": "a", "elements": 4, "codec": "none", "topology": "ps", "partitions": 1}
PLAN = {"made_by": "a test", "world": 2, "topology": "ps", "decisions": [DECISION]}
#: Commands that read a file; FILE stands for its name.
COMMANDS = {
    "plan": ["plan", "--input", "FILE", "--nnodes", "2"],
    "plan --profile": ["plan", "--input", "input.txt", "--profile", "FILE", "--nnodes", "2"],
    "show": ["plan", "show", "FILE"],
    "check": ["plan", "check", "FILE", "--input", "input.txt"],
    "check --input": ["plan", "check", "plan.json", "--input", "FILE"],
    "report": ["report", "FILE"],
    "report --plan": ["report", "trace.json", "--plan", "FILE"],
    "simulate --model": ["simulate", "--profile", "sosp21-56g", "--model", "FILE"],
    "simulate": ["simulate", "--profile", "FILE", "--model", "input.txt"],
    "profile": ["profile", "--gradients", "FILE"],
}
HOSTILE: dict[str, str | bytes] = {
    "empty": "",
    "blank": " \n\n",
    "deep lists": '{"decisions": ' + "[" * 200_000,
    "deep objects": '{"a":' * 200_000,
    "deep closed": '{"tensors": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "deep event": "[" * 200_000,
    "digits": '{"world": ' + "1" * 100_000 + "}",
    "digits in tensors": '{"tensors": [["a", [' + "1" * 100_000 + "], 0]]}",
    "one long line": "a" * 1_000_000,
    "no text": b"\xff\xfe\x00" * 100,
    "zeros": b"\0" * 1000,
    "not a number": '{"gradients": [{"name": "a", "elements": NaN}]}',
    "list": "[1, 2, 3]",
    "half": '{"gradients": [{"name": "a"',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("a,4\n")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    training(tmp_path / "trace.json")
    return tmp_path


def hipress(*words: str, code: int) -> str:
    """Runs the command and returns its output."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, (done.output[:1000], done.exception)
    return done.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", HOSTILE)
def test_wrong_content_is_told_in_a_sentence(folder: Path, command: str, content: str) -> None:
    hostile = HOSTILE[content]
    (folder / "FILE").write_bytes(hostile if isinstance(hostile, bytes) else hostile.encode())
    if command in ("plan --profile", "simulate"):
        (folder / "FILE").rename(folder / "FILE.json")  # a word without a suffix would be the name of a profile
    words = ["FILE.json" if word == "FILE" and (folder / "FILE.json").exists() else word for word in COMMANDS[command]]
    said = hipress(*words, code=1)
    sentence = said.strip().splitlines()[-1]
    assert sentence.startswith("hipress: ")
    assert "FILE" in sentence
    assert len(sentence) < 600
    assert sentence.isprintable()


def test_diff_ends_with_2_as_1_is_an_answer(folder: Path) -> None:
    (folder / "FILE").write_text("")
    assert "FILE is empty" in hipress("plan", "diff", "plan.json", "FILE", code=2)


@pytest.mark.slow
def test_huge_files_are_not_read_into_memory(folder: Path) -> None:
    """The file has one line of a gigabyte."""
    with open(folder / "FILE", "wb") as file:
        file.truncate(1 << 30)
    (folder / "FILE.json").symlink_to("FILE")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))

    for command in ("plan", "plan --profile", "show", "report", "report --plan"):
        words = [
            ("FILE.json" if "profile" in command else word) if word == "FILE" else word for word in COMMANDS[command]
        ]
        done = subprocess.run(
            [sys.executable, "-m", "hipress.cli", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limited,
            check=False,
        )
        assert done.returncode == 1, (words, done.stderr[-500:])
        expected = "is no trace of HiPress" if command == "report" else f"has more than {MOST_BYTES >> 20} MiB"
        assert expected in done.stderr


def test_markup_in_texts_is_text(folder: Path) -> None:
    names = ("[red]a[/red]", "[/nothing]", "[link=http://x]b")
    decisions = [{**DECISION, "name": name, "reason": f"because {name}"} for name in names]
    content = {**PLAN, "made_by": "[/x]", "model": "[bold]m", "decisions": decisions}
    (folder / "plan.json").write_text(json.dumps(content))
    said = hipress("plan", "show", "plan.json", code=0)
    for text in (*names, "because [/nothing]", "[/x]", "[bold]m"):
        assert text in said


def test_markup_in_a_profile_is_text(folder: Path) -> None:
    costs = profile()
    changed = costs.model_copy(update={"machine": costs.machine.model_copy(update={"text": "[/x] of [red]mine"})})
    changed.write(folder / "profile.json")
    words = ("--profile", "profile.json", "--model", "input.txt", "--nodes", "2", "--codec", "none")
    assert "[/x] of [red]mine" in hipress("simulate", *words, code=0)


@pytest.mark.parametrize("character", ["\x1b", "\n", "\x00", "\x9b", "\u202e", "\ud800"])
def test_texts_that_would_command_a_terminal_are_refused(folder: Path, character: str) -> None:
    for field in ("name", "codec", "topology", "reason", "group"):
        content = {**PLAN, "decisions": [{**DECISION, field: f"a{character}[31m"}]}
        (folder / "plan.json").write_text(json.dumps(content))
        said = hipress("plan", "show", "plan.json", code=1)
        assert character not in said.rstrip("\n")
    with pytest.raises(ValueError, match="which is no text"):
        Gradient(name=f"a{character}", elements=1)
    costs = json.loads(profile().to_json())
    costs["codecs"][f"one{character}bit"] = costs["codecs"].pop("onebit")
    (folder / "profile.json").write_text(json.dumps(costs))
    with pytest.raises(MalformedFile):
        read_profile("profile.json")


@pytest.mark.parametrize(
    "content", ["a,0\n", '{"gradients": []}', '{"tensors": []}', '{"tensors": [["a", [4, 0], 0]]}']
)
def test_nothing_to_plan_is_refused(folder: Path, content: str) -> None:
    (folder / "FILE").write_text(content)
    assert "there is nothing to plan" in hipress("plan", "--input", "FILE", "--nnodes", "2", code=1)


def test_more_elements_than_any_memory_has_are_refused(folder: Path) -> None:
    huge = 10**23
    for content in (
        f"a,{huge}\n",
        f"a,{1 << 49}\n",
        json.dumps({"gradients": [{"name": "a", "elements": huge}]}),
        json.dumps({"tensors": [["a", [10**12, 10**11], 0]]}),
        json.dumps({"tensors": [["a", [-4, -4], 0]]}),
        json.dumps({"tensors": [["a", [2] * 10_000, 0]]}),
    ):
        (folder / "FILE").write_text(content)
        assert "FILE" in hipress("plan", "--input", "FILE", "--nnodes", "2", code=1)


@pytest.mark.slow
def test_more_gradients_than_any_model_has_are_refused(folder: Path) -> None:
    (folder / "FILE").write_text("".join(f"g{i},1\n" for i in range(100_001)))
    with pytest.raises(MalformedFile, match="line 100001: more than 100000 gradients"):
        read_gradients("FILE")
    (folder / "FILE").write_text("".join(f"g{i},1,n,1\n" for i in range(100_001)))
    with pytest.raises(MalformedFile, match="line 100001: more than 100000 gradients"):
        read_plan("FILE", TextPlanOptions("tbq", 2))
    (folder / "FILE").write_text(json.dumps({"gradients": [0] * 1_000_000}))
    with pytest.raises(MalformedFile, match=r"gradients\.0: "):
        read_gradients("FILE")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,4,y,1000000000\n", "line 1: partitions: Input should be less than or equal to 4096"),
        ("a,4,y," + "1" * 5000 + "\n", "line 1: expected name,size,y|n,K"),
        ("a," + "1" * 5000 + ",y,1\n", "line 1: expected name,size,y|n,K"),
        (json.dumps({**PLAN, "decisions": [{**DECISION, "partitions": 10**9}]}), "decisions.0.partitions: "),
        (json.dumps({**PLAN, "world": 10**9}), "world: "),
        (json.dumps({**PLAN, "decisions": []}), "decides about no gradient"),
    ],
)
def test_a_plan_that_training_would_refuse(folder: Path, content: str, said: str) -> None:
    (folder / "FILE").write_text(content)
    assert said in hipress("plan", "check", "FILE", "--input", "input.txt", code=1)


@pytest.mark.parametrize("nodes", ["0", "-1", "1000000000"])
def test_numbers_of_ranks_have_bounds(folder: Path, nodes: str) -> None:
    for words in (["--input", "input.txt"], ["show", "plan.json"], ["check", "plan.json", "--input", "input.txt"]):
        assert f"--nnodes {nodes}: expected 1 to " in hipress("plan", *words, "--nnodes", nodes, code=2)
    words = ["--profile", "sosp21-56g", "--model", "input.txt", "--nodes", nodes]
    assert "expected" in hipress("simulate", *words, code=2)


@pytest.mark.parametrize("rate", ["1" * 400 + "gbit", "0gbit", "1e99gbit"])
def test_a_rate_that_no_link_has(folder: Path, rate: str) -> None:
    words = ["--profile", "sosp21-56g", "--model", "input.txt", "--bandwidth", rate]
    assert "expected a rate" in hipress("simulate", *words, code=2)


def event(**changes: object) -> str:
    told = {"bytes": 4, "tensor": "a", "partition": 0, "step": 0}
    return json.dumps({"name": "send", "ph": "X", "ts": 1e9, "dur": 5.0, "pid": 0, "args": told, **changes})


@pytest.mark.parametrize(
    "content",
    [
        f"[{event()}, {'[' * 100_000}]",
        f"[{event()}, {event(args={'tensor': 'x' * 3_000_000})}]",
        f"[{event()} {event()}]",
        f"[{event()}, 7]",
        f"[{event(ts=float('inf'))}]",
        f"[{event(dur=-1)}]",
        f"[{event(pid='1' * 5000)}]",
        f'[{event()}, {{"name": {"1" * 5000}}}]',
        f"[{event(args=[])}]",
        f"[{event()}",
    ],
)
def test_a_trace_with_something_else_in_it(folder: Path, content: str) -> None:
    (folder / "FILE").write_text(content)
    said = hipress("report", "FILE", code=1)
    assert "FILE is no trace" in said
    assert len(said) < 500


def test_events_are_read_wherever_chunks_end(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    events = [{"name": "é" * (index % 1000), "index": index} for index in range(5000)]
    file.write_text(json.dumps(events, ensure_ascii=False, indent=1))
    assert file.stat().st_size > 3 << 20
    assert list(read_events(file)) == events


def test_a_trace_with_more_spans_than_a_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hipress.secopa.report.trace.MOST_SPANS", 20)
    file = training(tmp_path / "trace.json")
    with pytest.raises(MalformedFile, match="more than 20 spans: trace fewer steps"):
        read_trace(file)


def another(change: Callable[[dict[str, object]], object]) -> dict[str, object]:
    """The plan of the training that traces.training() writes, after a change."""
    large, small = (
        {**DECISION, "name": name, "elements": count} for name, count in (("large", 16000), ("small", 8000))
    )
    plan: dict[str, object] = {**PLAN, "decisions": [large, small]}
    change(plan)
    return plan


def decisions(plan: dict[str, object]) -> list[dict[str, object]]:
    found = plan["decisions"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: plan.update(world=4), "the plan is for 4 ranks, the trace is of 2"),
        (lambda plan: plan.update(world=1), "the plan is for 1 ranks, the trace is of 2"),
        (lambda plan: decisions(plan)[1].update(name="smell"), "the plan is for 'smell', which is not in the trace"),
        (lambda plan: decisions(plan)[0].update(elements=8000), "'large' has 32000 bytes in the plan, 64000 bytes in"),
        (lambda plan: decisions(plan)[0].update(elements=16001), "'large' has 64004 bytes in the plan, 64000 bytes in"),
        (
            lambda plan: decisions(plan)[0].update(dtype="float16"),
            "'large' has 32000 bytes in the plan, 64000 bytes in",
        ),
        (
            lambda plan: [one.update(group="both") for one in decisions(plan)],
            "the plan is for 'both (2 gradients)', which is not in the trace",
        ),
    ],
    ids=["more ranks", "fewer ranks", "name", "smaller", "larger", "dtype", "group"],
)
def test_a_plan_of_another_run(folder: Path, change: Callable[[dict[str, object]], object], said: str) -> None:
    words = ("report", "trace.json", "--plan", "plan.json")
    (folder / "plan.json").write_text(json.dumps(another(change)))
    assert f"--plan is not the plan of this run: {said}" in hipress(*words, code=2)
    assert not (folder / "report.html").exists()
    (folder / "plan.json").write_text(json.dumps(another(lambda plan: None)))
    assert "wrote report.html" in hipress(*words, code=0)


def test_a_trace_of_some_ranks_does_not_show_all(folder: Path) -> None:
    """A trace can have peers on other machines, whose ranks wrote other files. So the plan may have more ranks than the
    trace."""
    written = Written()
    for step in range(2):
        written.exchange("a", step, 100.0 * step, raw=16, encoded=16)
    written.events[1]["args"]["peer"] = 3
    written.write(folder / "trace.json")
    for world, code in ((4, 0), (8, 0), (3, 2)):
        (folder / "plan.json").write_text(json.dumps({**PLAN, "world": world}))
        hipress("report", "trace.json", "--plan", "plan.json", code=code)


def test_markup_in_a_plan_is_text_of_the_page(folder: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    plan = another(lambda plan: plan.update(model=evil, made_by=evil, summary=evil))
    for one in decisions(plan):
        one.update(reason=evil, codec=evil, topology=evil)
    (folder / "plan.json").write_text(json.dumps(plan))
    hipress("report", "trace.json", "--plan", "plan.json", code=0)
    page = (folder / "report.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;") >= 9


def test_diff_of_plans_in_lines_takes_a_number_of_ranks(folder: Path) -> None:
    (folder / "plan.txt").write_text("a,4,n,1\n")
    assert "ranks: 2 | 1" in hipress("plan", "diff", "plan.json", "plan.txt", code=1)
    assert hipress("plan", "diff", "plan.json", "plan.txt", "--nnodes", "2", code=0) == "the plans are equal\n"


def test_a_file_that_cannot_be_read_is_no_malformed_one(tmp_path: Path) -> None:
    for read in (read_gradients, Plan.read, read_trace):
        with pytest.raises(InvalidArgument, match="cannot read") as caught:
            read(tmp_path)
        assert not isinstance(caught.value, MalformedFile)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"decisions": [' + "[]," * 4_000_000 + "[]]}", "made_by: Field required"),
        ("{" + ",".join(f'"{i:x}":0' for i in range(1_000_000)) + "}", "0: Extra inputs are not permitted"),
        ('{"codecs": {' + ",".join(f'"{i:x}":{{}}' for i in range(1_000_000)) + "}}", "codecs: more than 1000 entries"),
    ],
    ids=["lists", "fields", "codecs"],
)
def test_what_is_wrong_a_million_times_is_said_once(folder: Path, content: str, said: str) -> None:
    (folder / "FILE.json").write_text(content)
    (folder / "read.py").write_text(
        "import resource, sys\n"
        "from hipress.errors import InvalidArgument\n"
        "from hipress.secopa.plan.plan import Plan\n"
        "from hipress.secopa.profile.profile import Profile\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: (Profile if 'codecs' in open('FILE.json').read(20) else Plan).read('FILE.json')\n"
        "except InvalidArgument as error: print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)\n"
    )
    done = subprocess.run(
        [sys.executable, "read.py"], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    sentence, mebibytes = done.stdout.splitlines()
    assert said in sentence
    assert int(mebibytes) < 700
