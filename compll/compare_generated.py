# SPDX-License-Identifier: Apache-2.0
"""Shows how the generated C++ and CUDA of the built-in codecs differ between two versions of this repository.

    python compll/compare_generated.py HEAD                    a commit, and the files as they are
    python compll/compare_generated.py v0.1 main --codec int8  two commits, one codec

Each version's own compiler compiles its own codecs. The output is that of `git diff`; the exit status is 1 if there is
a difference. It needs git, and `lark`, as the compiler does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What the compiler of a version needs.
_NEEDED = ("compll", "bindings/python")


def generate(version: str | None, directory: Path, root: Path = ROOT) -> None:
    """Writes the generated sources of a commit of the repository `root`, or of its files as they are (None)."""
    if version is not None:
        packed = subprocess.run(
            ["git", "archive", version, *_NEEDED], cwd=root, check=True, stdout=subprocess.PIPE
        ).stdout
        root = directory.parent / f"{directory.name}.tree"
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(root, filter="data")
    subprocess.run([sys.executable, str(root / "compll" / "generate_algorithms.py"), str(directory)], check=True)


def difference(old: Path, new: Path, names: Collection[str] = ()) -> str:
    """The difference of two folders of generated sources, as `git diff` shows it; of these codecs only, if any are
    named."""
    if names:
        for folder in (old, new):
            for file in folder.iterdir():
                if file.stem.removesuffix("_cuda") not in names:
                    file.unlink()
    command = ["git", "diff", "--no-index", "--no-color", old.name, new.name]
    found = subprocess.run(command, cwd=old.parent, stdout=subprocess.PIPE, text=True)
    if found.returncode > 1:
        raise SystemExit(found.returncode)
    return found.stdout


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="another commit (default: the files as they are)")
    parser.add_argument("--codec", action="append", default=[], help="a codec to compare (default: all)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        old, new = Path(temporary, "old"), Path(temporary, "new")
        generate(given.old, old)
        generate(given.new, new)
        found = difference(old, new, given.codec)
    sys.stdout.write(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
