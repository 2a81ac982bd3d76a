# SPDX-License-Identifier: Apache-2.0
"""The methods that the suite compares: codecs of HiPress, optimizers that belong to codecs, and peers."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.optimizers.job import with_option
from benchmarks.optimizers.own import OWN
from hipress.codecs.named import codec_named

#: All methods are compared with this one, of the same optimizer, task and seed.
BASELINE = "bf16"
#: PowerSGD of torch, which DistributedDataParallel has as a hook, by name with its rank.
TORCH_POWERSGD = {"torch-powersgd(rank=1)": 1, "torch-powersgd(rank=4)": 4}
#: What an optimizer trains with if a codec has the momentum in its place.
_MOMENTUM = {"sgd": "momentum=0", "adamw": "momentum=0"}


@dataclass(frozen=True)
class Method:
    """`sweep`: the methods of a class share the learning rate that is best for the class' first one. `only`: of these
    optimizers; empty: of all."""

    sweep: str
    only: tuple[str, ...] = ()


#: Methods by name: the text of a codec, a key of OWN or of TORCH_POWERSGD. The most important ones come first.
METHODS: dict[str, Method] = {
    "bf16": Method("exact"),
    "int8": Method("exact"),
    "int4": Method("exact"),
    "onebit": Method("signs"),
    "OneBitAdam": Method("OneBitAdam", ("adamw",)),
    "terngrad": Method("signs"),
    "onebit(error_feedback=false)": Method("signs without feedback"),
    "fp8_e4m3": Method("exact"),
    "terngrad(bitwidth=4)": Method("exact"),
    "fp4_e2m1": Method("exact"),
    "dgc": Method("sparse"),
    "powersgd(rank=4)": Method("low rank"),
    "none": Method("exact"),
    "topk": Method("sparse"),
    "graddrop": Method("sparse"),
    "tbq": Method("signs"),
    "thc": Method("exact"),
    "dynamiq": Method("exact"),
    "natural": Method("exact"),
    "qsgd": Method("exact"),
    "int8_shared": Method("exact"),
    "powersgd(rank=1)": Method("low rank"),
    "torch-powersgd(rank=4)": Method("low rank"),
    "torch-powersgd(rank=1)": Method("low rank"),
    "ZeroOneAdam": Method("ZeroOneAdam", ("adamw",)),
    "LAMB": Method("LAMB", ("adamw",)),
    "OneBitLamb": Method("LAMB", ("adamw",)),
    "DeMo": Method("DeMo", ("adamw",)),
}


def method_named(name: str) -> Method:
    """A method of the suite, or a user's own codec, which has a sweep of its own."""
    return METHODS.get(name, Method(name))


def first_of(sweep: str) -> str:
    """The method whose best learning rate its whole class takes."""
    return next((name for name, method in METHODS.items() if method.sweep == sweep), sweep)


def suits(method: str, optimizer: str) -> bool:
    """Whether the suite has the method with an optimizer."""
    only = method_named(method).only
    return not only or optimizer in only


def codec_of(method: str, optimizer: str) -> str:
    """The text of a codec for an optimizer, which the process then knows. dgc has momentum of its own, so that the
    optimizer has none."""
    if method.startswith("dgc") and optimizer in _MOMENTUM:
        return with_option(method, _MOMENTUM[optimizer])
    return method if method in METHODS else codec_named(method)


def has_momentum(method: str, optimizer: str) -> bool:
    """Whether the optimizer itself has momentum."""
    return optimizer == "momentum" and not method.startswith("dgc")


def is_codec(method: str) -> bool:
    """Whether DistributedOptimizer trains with it."""
    return method not in OWN and method not in TORCH_POWERSGD
