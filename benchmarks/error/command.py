# SPDX-License-Identifier: Apache-2.0
"""Measures the distance of the compressed average of real gradients from the exact average.

    python benchmarks/error.py --json FILE
    python benchmarks/error.py --training digits --codec int8,int4 --topology ps,ring --ranks 4

The gradients come from three trainings (gradients.py). The ranks are threads of this process, and the engine averages
as it does over a network. A row for each training, codec, topology and number of ranks has the columns

    training, codec, topology, ranks
    vnmse               squared distance of the average from the exact one, divided by the latter's squared length
    bits_per_element    bits of the encoded form of all gradients, divided by the number of elements
    elements            number of elements of the compressed gradients, which have at least 4096 bytes

A codec with summed encodings has no row for a number of ranks whose sum could overflow.
Codecs with error feedback start with zero states: the column has the loss of one step, which later steps make up for. A
codec that rounds at random is measured with one seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.error.averages import averages, normalised_error
from benchmarks.error.gradients import TRAININGS, Gradients, gradients_of
from benchmarks.harness.arguments import codec_names, names_of, topology_names
from benchmarks.harness.report import Row, parse_names, print_table, write_json
from hipress._library import load_core

CODECS = (
    *("fp16", "bf16", "int8", "int8(stochastic=true)", "fp8_e4m3", "fp8_e4m3(power_of_two=true)", "fp8_e5m2"),
    *(
        "int8_shared(levels=31)",
        "int8_shared(levels=7)",
        "thc(levels=31,reach=3.3)",
        "thc",
        "thc(stochastic=true)",
        "natural",
        "qsgd",
        "u8bit",
        "dynamiq",
        "dynamiq(bits=6)",
        "int4",
        "fp4_e2m1",
        "fp4_e2m1(power_of_two=true)",
        "terngrad(bitwidth=4)",
        "terngrad",
    ),
    *("tbq", "onebit", "efsignsgd", "topk", "randomk", "threshold", "dgc", "graddrop"),
)
TOPOLOGIES = ("ps", "ring", "butterfly")
RANKS = ("4", "16")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    trainings = list(TRAININGS)
    parser.add_argument("--training", type=names_of("training", trainings), default=trainings, help="by commas")
    parser.add_argument("--codec", type=codec_names, default=list(CODECS), help="by commas (default: all)")
    parser.add_argument("--topology", type=topology_names, default=list(TOPOLOGIES), help="by commas")
    parser.add_argument("--ranks", type=parse_names, default=list(RANKS), help="by commas (default: 4,16)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def bits_per_element(codec: str, gradients: Gradients) -> float:
    """The bits per element of rank 0's payloads."""
    core = load_core()
    made = core.create_codec(codec)
    sizes = [len(made.encode(gradient, seed=1, step=0, tensor=0, first_element=0)) for gradient in gradients[0]]
    return 8 * sum(sizes) / sum(len(gradient) for gradient in gradients[0])


def fits(codec: str, ranks: int) -> bool:
    """Whether the sum of so many ranks' encoded values cannot overflow, if ranks add these."""
    summed = load_core().create_codec(codec).summed
    return summed is None or ranks <= summed[2]


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if not all(text.isdecimal() and int(text) > 0 for text in given.ranks):
        parser.error(f"--ranks are positive integers, not {','.join(given.ranks)}")
    counts = [int(text) for text in given.ranks]
    rows: list[Row] = []
    for training in given.training:
        gradients = gradients_of(training, max(counts))
        elements = sum(len(gradient) for gradient in gradients[0])
        for codec in given.codec:
            bits = bits_per_element(codec, gradients)
            for topology in given.topology:
                for ranks in (count for count in counts if fits(codec, count)):
                    error = normalised_error(averages(gradients[:ranks], codec, topology), gradients[:ranks])
                    measured = {"vnmse": error, "bits_per_element": bits, "elements": elements}
                    rows.append(
                        {"training": training, "codec": codec, "topology": topology, "ranks": ranks, **measured}
                    )
    print("Distance of compressed averages from exact averages, squared and relative:")
    print_table(rows)
    if given.json:
        write_json(given.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
