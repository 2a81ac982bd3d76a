# SPDX-License-Identifier: Apache-2.0
"""What watching costs: steps of DDP's hook in a window of hipress.torch.watch(), beside steps outside of one.

    python benchmarks/harm/cost.py --json FILE

Two ranks on this machine. Gradients have the shapes of a real model's, and backward computes nothing else, so a step is
its averages alone: what watching costs of a real step is less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from benchmarks.harness.report import print_table, write_json
from benchmarks.models import MODELS, load
from hipress.torch import ddp

#: Steps before a window, and its length.
_WINDOW = 20
#: Of so many steps of a long training one window is watched.
_EVERY = 1000


class Gradients(nn.Module):
    """Parameters with the shapes of a model's gradients. Each gradient is the same in every step."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(each.shape)) for each in load(model).gradients])

    def forward(self, given: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([(each * value).sum() for each, value in zip(self.weights, given, strict=True)]).sum()


def measured(model: str, codec: str, windows: int) -> dict[str, float | str]:
    """The medians of steps in windows and outside of them, in turns."""
    net = DistributedDataParallel(Gradients(model))
    given = [torch.randn_like(each) for each in net.parameters()]
    state = ddp.compress(net, codec)
    times: dict[bool, list[float]] = {True: [], False: []}
    # Every second window's length is watched.
    watcher = hp.watch(state, "momentum", every=2 * _WINDOW, window=_WINDOW, on_harm="ignore")
    for step in range(2 * _WINDOW * (windows + 1)):
        started = time.perf_counter()
        net(given).backward()
        took = time.perf_counter() - started
        if step >= 2 * _WINDOW:
            times[watcher.is_on].append(took)
    state.close()
    inside, outside = statistics.median(times[True]), statistics.median(times[False])
    return {
        "model": model,
        "codec": codec,
        "step_s": outside,
        "watched_step_s": inside,
        "watched_ratio": inside / outside,
        "share_of_a_long_training": (inside / outside - 1) * _WINDOW / _EVERY,
    }


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, nargs="+", default=["resnet50", "bert-base"])
    parser.add_argument("--codec", nargs="+", default=["int8", "onebit"])
    parser.add_argument("--windows", type=int, default=3, help="watched ones (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def main() -> int:
    """Starts the ranks; on one of them: measures, and rank 0 prints. Returns the exit code."""
    given = arguments().parse_args()
    if "HIPRESS_RANK" not in os.environ:
        launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", "2", sys.executable]
        return subprocess.run([*launcher, str(Path(__file__).resolve()), *sys.argv[1:]]).returncode
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = [measured(model, codec, given.windows) for model in given.model for codec in given.codec]
    if dist.get_rank() == 0:
        print_table(rows)
        if given.json is not None:
            write_json(given.json, rows)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
