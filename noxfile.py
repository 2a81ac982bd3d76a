# SPDX-License-Identifier: Apache-2.0
"""The test matrix: one wheel, installed into an environment for each framework and into one that has none.

make test                     all of it, from nothing, without the tests marked `thorough`
make test-thorough            those
.venv/bin/nox -s mxnet        one part, with the wheel that `make wheel` has built
.venv/bin/nox -s mxnet -- -k trainer      arguments for pytest
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import nox
from nox.command import CommandFailed

#: Frameworks with an adapter that cannot be installed beside torch.
FRAMEWORKS = [name for name in ("tensorflow", "mxnet") if Path("frameworks", name).is_dir()]

#: Of the tests of launchers those in which torch has a part. The session `bare` runs them all.
_WITH_TORCH = ("test_doctor.py", "test_launchers.py", "test_torchrun.py")

nox.options.sessions = ["torch", *FRAMEWORKS, "bare"]
nox.options.reuse_existing_virtualenvs = True
nox.options.stop_on_first_error = False


@nox.session(python=False)
def torch(session: nox.Session) -> None:
    """Core, CompLL and PyTorch, in the environment that make has made: .venv, of requirements/build.txt, demo.txt and
    dev.txt."""
    others = [f"--ignore=tests/{framework}" for framework in FRAMEWORKS]
    others += [f"--ignore={file}" for file in Path("tests/launch").glob("test_*.py") if file.name not in _WITH_TORCH]
    others += ["--ignore=tests/launch/elastic"]
    which = {"HIPRESS_FRAMEWORKS": "torch"}
    _pytest(session, ".venv/bin/python", others, which, processes=_MANY, external=True)


@nox.session
def tensorflow(session: nox.Session) -> None:
    """TensorFlow, in an environment of requirements/tensorflow.txt."""
    _test_adapter(session, "tensorflow")


@nox.session
def mxnet(session: nox.Session) -> None:
    """MXNet, in an environment of requirements/mxnet.txt."""
    _test_adapter(session, "mxnet")


@nox.session
def bare(session: nox.Session) -> None:
    """The package itself and its launchers, where there is no framework: requirements/bare.txt."""
    _install(session, "bare")
    _pytest(session, "python", ["tests/bare", "tests/launch"], {}, processes=_FEW)


def _test_adapter(session: nox.Session, framework: str) -> None:
    _install(session, framework)
    # Its tests are skipped where it is not there; here it must be.
    session.run("python", "-c", f"import hipress.{framework}")
    # The suite that all frameworks pass, and what is said of this one alone.
    folders = ["tests/frameworks", f"tests/{framework}"]
    _pytest(session, "python", folders, {"HIPRESS_FRAMEWORKS": framework}, processes=_FEW)


#: `thorough`: the tests with that mark; otherwise all others.
_TESTS = "thorough" if os.environ.get("TIER") == "thorough" else "not thorough"
#: What pytest returns if there is no test, as in a session without thorough ones.
_NO_TEST = 5

#: So many failures may be accidents of a busy machine. More are not.
_ACCIDENTS = 5
#: Processes of pytest. Many tests wait for deadlines, so there is one more than cores. Each process imports the
#: framework, and so do the ranks that it starts: the two sessions that run beside torch's have one process each.
_MANY = len(os.sched_getaffinity(0)) + 1
_FEW = 1


def _pytest(
    session: nox.Session,
    python: str,
    arguments: list[str],
    variables: dict[str, str],
    *,
    processes: int,
    external: bool = False,
) -> None:
    """Runs tests in so many processes.

    A few failed tests run again, one after the other. A test that passes then is named in a warning: it is a defect, of
    the test or of HiPress, but not one of the change that was about to be merged.
    """
    kept = Path("build/pytest", session.name)
    shutil.rmtree(kept, ignore_errors=True)
    which = ["-m", _TESTS, "-o", f"cache_dir={kept}", "--durations=40", f"--junitxml={kept}.xml"]
    command = [python, "-m", "pytest", *which, *arguments, *session.posargs]
    codes = [0, _NO_TEST] if _TESTS == "thorough" else [0]
    try:
        session.run(*command, "-n", str(processes), external=external, env=variables, success_codes=codes)
    except CommandFailed:
        record = kept / "v" / "cache" / "lastfailed"
        failed = sorted(json.loads(record.read_text())) if record.exists() else []
        if not 0 < len(failed) <= _ACCIDENTS or session.posargs:
            raise
        session.run(*command, "-n", "0", "--last-failed", external=external, env=variables)
        session.warn(f"passed only when run again, alone: {', '.join(failed)}")


def _install(session: nox.Session, environment: str) -> None:
    session.install("--no-deps", "-r", f"requirements/{environment}.txt")
    wheels = list(Path("build/wheel").glob("*.whl"))
    if len(wheels) != 1:
        session.error(f"expected one wheel in build/wheel, found {len(wheels)}: run make wheel")
    session.install("--no-deps", "--force-reinstall", str(wheels[0]))
