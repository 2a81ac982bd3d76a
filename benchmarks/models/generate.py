# SPDX-License-Identifier: Apache-2.0
"""Writes the gradient sets of all models, or of some, from their architectures.

    python -m benchmarks.models.generate [--keep-times] [MODEL...]

Names and shapes come from the modules. Release times are measured on one thread of this machine with a batch of two:
the median time at which backward accumulates each gradient. Measure on an idle machine. --keep-times keeps the times of
the file.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from . import bert_base, gpt2, resnet50, vgg19
from .gradient_set import HERE, MODELS, Gradient, GradientSet, load

BATCH = 2
REPEATS = 7

ARCHITECTURES: dict[str, tuple[type[nn.Module], Callable[[nn.Module, int], torch.Tensor]]] = {
    "vgg19": (vgg19.Vgg19, vgg19.loss),
    "resnet50": (resnet50.Resnet50, resnet50.loss),
    "bert-base": (bert_base.BertBase, bert_base.loss),
    "gpt2": (gpt2.Gpt2, gpt2.loss),
}


def without_times(model: str) -> GradientSet:
    """The gradient set with names and shapes only. It needs no memory for values."""
    with torch.device("meta"):
        module = ARCHITECTURES[model][0]()
    return GradientSet(model, tuple(Gradient(name, tuple(p.shape), 0.0) for name, p in module.named_parameters()))


def measured(model: str) -> GradientSet:
    """The gradient set with the release times of this machine."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    architecture, loss = ARCHITECTURES[model]
    module = architecture()
    ready: dict[str, list[float]] = {name: [] for name, _ in module.named_parameters()}
    totals = []
    start = 0.0
    for name, parameter in module.named_parameters():

        def note(_parameter: torch.Tensor, name: str = name) -> None:
            ready[name].append(time.perf_counter() - start)

        parameter.register_post_accumulate_grad_hook(note)
    for repeat in range(REPEATS + 1):
        value = loss(module, BATCH)
        start = time.perf_counter()
        value.backward()
        totals.append(time.perf_counter() - start)
        module.zero_grad()
        if repeat == 0:  # warm-up
            totals.clear()
            for times in ready.values():
                times.clear()
    gradients = tuple(
        replace(gradient, ready_s=round(statistics.median(ready[gradient.name]), 4))
        for gradient in without_times(model).gradients
    )
    how = f"backward of {BATCH} samples on one thread of a CPU, median of {REPEATS}"
    return GradientSet(model, gradients, round(statistics.median(totals), 4), how)


def main() -> None:
    """Writes the gradient sets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep-times", action="store_true", help="measure nothing")
    parser.add_argument("model", nargs="*", choices=[*MODELS, []], help="default: all")
    given = parser.parse_args()
    for model in given.model or MODELS:
        if given.keep_times:
            old = load(model)
            times = {gradient.name: gradient.ready_s for gradient in old.gradients}
            fresh = without_times(model).gradients
            now = replace(old, gradients=tuple(replace(one, ready_s=times[one.name]) for one in fresh))
        else:
            now = measured(model)
        now.write(HERE / f"{model}.json")
        print(f"{model}: {len(now.gradients)} tensors, {now.size / 1e6:.1f} MB, backward {now.backward_s:.3f} s")


if __name__ == "__main__":
    main()
