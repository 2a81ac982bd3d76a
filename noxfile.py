# SPDX-License-Identifier: Apache-2.0
"""The test matrix: one wheel, installed into an environment for each framework and into one that has none.

make test                     all of it, from nothing
.venv/bin/nox -s mxnet        one part, with the wheel that `make wheel` has built
.venv/bin/nox -s mxnet -- -k trainer      arguments for pytest
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

#: Frameworks with an adapter that cannot be installed beside torch.
FRAMEWORKS = [name for name in ("tensorflow", "mxnet") if Path("frameworks", name).is_dir()]

nox.options.sessions = ["torch", *FRAMEWORKS, "bare"]
nox.options.reuse_existing_virtualenvs = True
nox.options.stop_on_first_error = False


@nox.session(python=False)
def torch(session: nox.Session) -> None:
    """Core, CompLL and PyTorch, in the environment that make has made: .venv, of requirements/build.txt and dev.txt."""
    others = [f"--ignore=tests/{framework}" for framework in FRAMEWORKS]
    # What frameworks wrote in an earlier run is not compared with this one's.
    shutil.rmtree("build/conformance", ignore_errors=True)
    which = {"HIPRESS_FRAMEWORKS": "torch"}
    _pytest(session, ".venv/bin/python", others, which, external=True)


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
    _pytest(session, "python", ["tests/bare", "tests/launch"], {})


def _test_adapter(session: nox.Session, framework: str) -> None:
    _install(session, framework)
    # Its tests are skipped where it is not there; here it must be.
    session.run("python", "-c", f"import hipress.{framework}")
    # The suite that all frameworks pass, and what is said of this one alone.
    folders = ["tests/frameworks", f"tests/{framework}"]
    _pytest(session, "python", folders, {"HIPRESS_FRAMEWORKS": framework})


def _pytest(
    session: nox.Session, python: str, arguments: list[str], variables: dict[str, str], *, external: bool = False
) -> None:
    """One process more than there are cores, because many tests wait for deadlines."""
    processes = str(len(os.sched_getaffinity(0)) + 1)
    session.run(python, "-m", "pytest", "-n", processes, *arguments, *session.posargs, external=external, env=variables)


def _install(session: nox.Session, environment: str) -> None:
    session.install("--no-deps", "-r", f"requirements/{environment}.txt")
    if "HIPRESS_ENVIRONMENTS_ONLY" in os.environ:  # The wheel may be about to be built.
        return
    wheels = list(Path("build/wheel").glob("*.whl"))
    if len(wheels) != 1:
        session.error(f"expected one wheel in build/wheel, found {len(wheels)}: run make wheel")
    session.install("--no-deps", "--force-reinstall", str(wheels[0]))
