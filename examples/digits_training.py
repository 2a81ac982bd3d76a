# SPDX-License-Identifier: Apache-2.0
"""The code that all frameworks' digits.py use: options, warm-up, learning rate and results."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hipress._core import describe_codecs

#: The ratio of a warm-up epoch divided by the ratio of the epoch before.
WARMUP_FACTOR = 1 / 4


def parse_arguments(
    arguments: Sequence[str] | None = None, add_more: Callable[[argparse.ArgumentParser], None] | None = None
) -> argparse.Namespace:
    """`add_more` adds a framework's own options."""
    codecs = "; ".join(codec_text(name, options) for name, options in codec_options().items())
    parser = argparse.ArgumentParser(
        description="Train on handwritten digits.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--codec", default="none", help=f"codec of the gradients, with any options: {codecs}")
    parser.add_argument("--warmup-epochs", type=int, default=4, help="epochs in which dgc and graddrop send more")
    parser.add_argument("--topology", default="ps", help="ps, ring, allgather or hierarchical")
    parser.add_argument("--partitions", type=int, default=0, help="partitions per gradient; 0: by size")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8, help="images per rank and step")
    parser.add_argument("--lr", type=float, default=0.03, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first weights and of the order of images")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rank 0 writes results here")
    if add_more is not None:
        add_more(parser)
    return parser.parse_args(arguments)


def codec_options() -> dict[str, dict[str, str]]:
    """The options of each codec with their defaults, as text."""
    codecs = sorted(describe_codecs(), key=lambda codec: codec["id"])
    return {codec["name"]: {option["name"]: option["default"] for option in codec["options"]} for codec in codecs}


def codec_text(name: str, options: dict[str, str]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name


def warmup_codecs(codec: str, epochs: int) -> list[str]:
    """The codec of each warm-up epoch; an empty list for codecs without a ratio."""
    name, _, text = codec.replace(" ", "").rstrip(")").partition("(")
    options = dict(option.split("=") for option in text.split(",") if option)
    ratio = options.get("ratio", codec_options().get(name, {}).get("ratio"))
    if ratio is None:
        return []
    ratios = [max(float(ratio), WARMUP_FACTOR ** (epoch + 1)) for epoch in range(epochs)]
    return [codec_text(name, {**options, "ratio": str(each)}) for each in ratios]


def learning_rate(step: int, steps: int, highest: float) -> float:
    """The rate of a step. It rises over the first fifth of the steps, then falls to almost 0, as OneCycleLR."""
    rising = 0.2 * steps - 1

    def between(start: float, end: float, part: float) -> float:
        return end + (start - end) / 2 * (1 + math.cos(math.pi * part))

    if step <= rising:
        return between(highest / 25, highest, step / rising)
    return between(highest, highest / 25e4, (step - rising) / (steps - 1 - rising))


def write_results(
    arguments: argparse.Namespace,
    world_size: int,
    test_accuracy: float,
    losses: Iterable[float],
    sent_by_epoch: Iterable[float],
    **more: Any,
) -> None:
    """Writes the file of --json, if it is given. Losses (by step) and bytes are means over the ranks."""
    if arguments.json is None:
        return
    losses, sent = list(losses), list(sent_by_epoch)
    results = {
        "codec": arguments.codec,
        "warmup_codecs": warmup_codecs(arguments.codec, arguments.warmup_epochs),
        "topology": arguments.topology,
        "world_size": world_size,
        "seed": arguments.seed,
        "test_accuracy": test_accuracy,
        "bytes_per_step_and_rank": round(sum(sent) / len(losses)),
        "bytes_by_epoch": [round(one) for one in sent],
        **more,
        "loss": [round(value, 5) for value in losses],
    }
    arguments.json.write_text(json.dumps(results) + "\n")
