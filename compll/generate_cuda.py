# SPDX-License-Identifier: Apache-2.0
"""Run by the build: makes CUDA sources of the codecs in algorithms/. Reads the package from its sources.

python generate_cuda.py OUTPUT_DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from generate_algorithms import ROOT, use_sources


def main(directory: Path) -> None:
    from hipress.compll.emit_cpu_codec import Origin
    from hipress.compll.emit_cuda_codec import emit_cuda_codec
    from hipress.compll.library import compile_file, read

    directory.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / "compll" / "algorithms").glob("*.cll")):
        origin = Origin(f"compll/algorithms/{file.name}", read(file), builtin=True)
        (directory / f"{file.stem}.cu").write_text(emit_cuda_codec(compile_file(file), origin))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    use_sources()
    main(Path(sys.argv[1]))
