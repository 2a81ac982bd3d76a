# SPDX-License-Identifier: Apache-2.0
"""Run by the build: makes CUDA sources of the codecs in algorithms/, and the list of all for GPUs. Reads the package
from its sources.

python generate_cuda.py OUTPUT_DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from generate_algorithms import ROOT, use_sources


def main(directory: Path) -> None:
    from hipress.compll.emit_cpu_codec import Origin
    from hipress.compll.emit_cuda_codec import emit_cuda_codec, emit_cuda_codecs
    from hipress.compll.library import compile_file, read

    directory.mkdir(parents=True, exist_ok=True)
    files = sorted((ROOT / "compll" / "algorithms").glob("*.cll"))
    for file in files:
        origin = Origin(f"compll/algorithms/{file.name}", read(file), builtin=True)
        (directory / f"{file.stem}.cu").write_text(emit_cuda_codec(compile_file(file), origin))
    # fp16 is written by hand, core/device/cuda/fp16.cu.
    (directory / "builtin_codecs.cu").write_text(emit_cuda_codecs(["fp16", *(file.stem for file in files)]))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    use_sources()
    main(Path(sys.argv[1]))
