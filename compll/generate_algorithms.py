# SPDX-License-Identifier: Apache-2.0
"""Makes the C++ of the codecs in algorithms/. The build runs this script; it reads the package from its sources.

python generate_algorithms.py OUTPUT_DIRECTORY
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def use_sources() -> None:
    """Makes `hipress.compll` and `hipress.errors` importable, without the compiled module."""
    package = types.ModuleType("hipress")
    package.__path__ = [str(ROOT / "bindings" / "python")]
    sys.modules["hipress"] = package
    where = ROOT / "compll" / "python"
    spec = importlib.util.spec_from_file_location(
        "hipress.compll", where / "__init__.py", submodule_search_locations=[str(where)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hipress.compll"] = module
    spec.loader.exec_module(module)


def main(directory: Path) -> None:
    """Writes two source files for each codec: the codec itself, and its part for GPUs."""
    from hipress.compll.check.library import compile_file, read
    from hipress.compll.emit.cpu.codec import CPU
    from hipress.compll.emit.cuda.codec import CUDA
    from hipress.compll.emit.origin import Origin

    directory.mkdir(parents=True, exist_ok=True)
    files = sorted((ROOT / "compll" / "algorithms").glob("*.cll"))
    for file in files:
        origin = Origin(f"compll/algorithms/{file.name}", read(file), builtin=True)
        program = compile_file(file)
        (directory / f"{file.stem}.cc").write_text(CPU.codec(program, origin))
        (directory / f"{file.stem}_cuda.cc").write_text(CUDA.library(program, origin))
    (directory / "builtins.cc").write_text(CPU.codec_list([file.stem for file in files]))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    use_sources()
    main(Path(sys.argv[1]))
