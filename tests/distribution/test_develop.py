# SPDX-License-Identifier: Apache-2.0
"""`make develop`: the installed package is the clone's, and editors find all of it in src/."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from distribution import develop
from tests.environments import environment

#: Where the parts of the package are, beside the files and folders of bindings/python.
PARTS = {
    "torch": "frameworks/torch/python",
    "tensorflow": "frameworks/tensorflow/python",
    "mxnet": "frameworks/mxnet/python",
    "compll": "compll/python",
    "secopa": "secopa/python",
}


def test_the_tree_of_the_package_has_all_of_its_parts() -> None:
    own = develop.ROOT / "bindings" / "python"
    expected = {path.name: path for path in own.iterdir() if path.name != "__pycache__"}
    expected |= {name: develop.ROOT / part for name, part in PARTS.items()}
    links = {path.name: path for path in develop.SOURCES.iterdir()}
    assert set(links) == set(expected)
    for name, link in links.items():
        assert not link.readlink().is_absolute(), link
        assert link.resolve() == expected[name].resolve()


def test_the_tree_has_what_a_wheel_has() -> None:
    import hipress

    package = Path(hipress.__file__).parent
    installed = {
        path.relative_to(package)
        for path in package.rglob("*")
        if path.name.endswith(develop.READ) and "include" not in path.relative_to(package).parts
    }
    assert installed == set(develop.sources())


def test_python_files_become_links_and_what_is_compiled_stays(tmp_path: Path) -> None:
    source, package = tmp_path / "source", tmp_path / "package"
    (source / "part").mkdir(parents=True)
    (source / "part" / "module.py").write_text("value = 1\n")
    (source / "part" / "notes.txt").write_text("not read\n")
    (package / "part").mkdir(parents=True)
    (package / "part" / "module.py").write_text("value = 0\n")
    (package / "compiled.so").write_text("code")
    (package / "gone.py").symlink_to(tmp_path / "nothing")
    assert develop.link(package, source) == 1
    (source / "part" / "module.py").write_text("value = 2\n")
    assert (package / "part" / "module.py").read_text() == "value = 2\n"
    assert sorted(path.name for path in package.rglob("*")) == ["compiled.so", "module.py", "part"]
    (source / "part" / "new.py").write_text("")
    assert develop.link(package, source) == 1
    assert develop.link(package, source) == 0


@pytest.mark.slow
def test_pyright_finds_every_module_of_the_package_in_the_clone(tmp_path: Path) -> None:
    modules = []
    for place in develop.sources():
        if place.suffix == ".py":
            parts = ("hipress", *place.with_suffix("").parts)
            modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    everything = tmp_path / "everything.py"
    everything.write_text("".join(f"import {module}\n" for module in sorted(modules)) + "import hipress.nothing\n")
    settings = json.loads((develop.ROOT / "pyrightconfig.json").read_text())
    paths = [str(develop.ROOT / path) for path in settings.pop("extraPaths")]
    del settings["venv"], settings["venvPath"]  # what is installed does not count
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({**settings, "include": [everything.name], "exclude": [], "extraPaths": paths}))
    pyright = environment("editors", ["pyright"]) / "bin" / "pyright"
    command = [str(pyright), "--outputjson", "--project", str(config), "--pythonpath", "/usr/bin/false"]
    found = subprocess.run(command, capture_output=True, text=True)
    missing = [
        entry["message"]
        for entry in json.loads(found.stdout)["generalDiagnostics"]
        if entry.get("rule") == "reportMissingImports"
    ]
    assert missing == ['Import "hipress.nothing" could not be resolved']
