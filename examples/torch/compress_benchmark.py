# SPDX-License-Identifier: Apache-2.0
"""MergeComp's benchmark, with its command line. It measures the gain of compressing gradients in merged groups.

    hipress run -np 4 python compress_benchmark.py --compress --compressor onebit --comm allgather --memory residual \\
        --fusion-num 1 --model resnet50
    hipress run -np 4 python compress_benchmark.py --model resnet50                 without compression, to compare

The images are random. The program measures images per second and the bytes that a rank sends.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import devices
import torch
from torch import nn
from torch.nn import functional

import hipress.torch as hp
from hipress._core import describe_codecs
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.gradients import Gradient
from hipress.secopa.profile.model_gradients import gradients_of_tensors

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks have the models
from benchmarks.models.resnet50 import Resnet50
from benchmarks.models.vgg19 import Vgg19

MODELS: dict[str, type[nn.Module]] = {"resnet50": Resnet50, "vgg19": Vgg19}
#: Topologies by MergeComp's names.
TOPOLOGIES = {"allreduce": "ring", "allgather": "allgather", "ps": "ps"}
#: Codecs with another name in MergeComp.
COMPRESSORS = {"fp32": "none"}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train on random images with gradients that are compressed in groups.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and iteration")
    parser.add_argument("--image-size", type=int, default=224, help="pixels; VGG-19 takes 224 only")
    parser.add_argument("--compress", action="store_true", help="without it gradients are sent raw")
    parser.add_argument("--compressor", default="onebit", help="fp32, fp16, or a codec of HiPress")
    parser.add_argument("--comm", choices=TOPOLOGIES, default="allgather", help="how ranks exchange gradients")
    parser.add_argument("--memory", choices=("residual", "dgc", "none"), default="residual", help="the codec's states")
    parser.add_argument(
        "--fusion-num", type=int, default=0, help="number of groups into which gradients are merged; 0: no groups"
    )
    parser.add_argument("--num-warmup-batches", type=int, default=3)
    parser.add_argument("--num-iters", type=int, default=10, help="iterations that are measured")
    devices.add_device(parser)
    return parser.parse_args()


def codec_of(compressor: str, memory: str) -> str:
    """The codec's text. Exits if no codec has that name, or if the codec has other states."""
    name = COMPRESSORS.get(compressor.lower(), compressor.lower())
    options = {codec["name"]: {option["name"] for option in codec["options"]} for codec in describe_codecs()}
    if name not in options:
        raise SystemExit(f"--compressor {compressor}: there are fp32 and {', '.join(sorted(options))}")
    if (memory == "dgc") != (name == "dgc") and memory != "none":
        raise SystemExit(f"--memory {memory} does not go with --compressor {compressor}: --memory dgc is dgc's alone")
    if memory == "none" and "error_feedback" in options[name]:
        return f"{name}(error_feedback=false)"
    return name


def groups_of(gradients: Sequence[Gradient], number: int) -> list[str | None]:
    """The group of each gradient. Groups have consecutive gradients and nearly equal sizes, the last ones first."""
    if number == 0:
        return [None] * len(gradients)
    total = sum(gradient.elements for gradient in gradients)
    groups: list[str | None] = []
    before = 0
    for gradient in reversed(gradients):
        groups.append(f"merged {min(number - 1, before * number // total)}")
        before += gradient.elements
    return groups[::-1]


def plan_of(model: nn.Module, arguments: argparse.Namespace) -> Plan:
    """A plan that compresses every gradient, in --fusion-num groups."""
    gradients = gradients_of_tensors(arguments.model, model.named_parameters()).gradients
    codec = codec_of(arguments.compressor, arguments.memory)
    topology = TOPOLOGIES[arguments.comm]
    decisions = tuple(
        Decision(
            name=gradient.name,
            elements=gradient.elements,
            dtype=gradient.dtype,
            codec=codec,
            topology=topology,
            partitions=1 if topology == "allgather" else hp.size(),
            group=group,
            reason="asked for",
        )
        for gradient, group in zip(gradients, groups_of(gradients, arguments.fusion_num), strict=True)
    )
    return Plan(made_by="compress_benchmark", world=hp.size(), topology=topology, decisions=decisions)


def main() -> None:
    arguments = parse_arguments()
    hp.init()
    device = devices.chosen(arguments)
    torch.set_num_threads(max(1, torch.get_num_threads() // hp.local_size()))
    torch.manual_seed(hp.rank())
    model = MODELS[arguments.model]().to(device)
    plan = plan_of(model, arguments) if arguments.compress else None
    momentum = 0.0 if arguments.compress and arguments.compressor.startswith("dgc") else 0.9
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum)
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), plan=plan)
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    images = torch.randn(arguments.batch_size, 3, arguments.image_size, arguments.image_size, device=device)
    labels = torch.randint(1000, (arguments.batch_size,), device=device)
    seconds: list[float] = []
    sent = 0
    for iteration in range(arguments.num_warmup_batches + arguments.num_iters):
        if iteration == arguments.num_warmup_batches:
            sent = hp.counters()["bytes_sent"]
        started = time.perf_counter()
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    if hp.rank() == 0:
        median = statistics.median(seconds[arguments.num_warmup_batches :])
        megabytes = (hp.counters()["bytes_sent"] - sent) / arguments.num_iters / 1e6
        how = "fp32" if plan is None else f"{arguments.compressor}, {arguments.comm}, fusion {arguments.fusion_num}"
        print(
            f"{arguments.model}, {how}, {hp.size()} ranks: {arguments.batch_size * hp.size() / median:.1f} images/s, "
            f"{1000 * median:.0f} ms per iteration, {megabytes:.2f} MB sent per rank",
            flush=True,
        )
    hp.shutdown()


if __name__ == "__main__":
    main()
