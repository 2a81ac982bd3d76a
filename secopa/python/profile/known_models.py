# SPDX-License-Identifier: Apache-2.0
"""The gradients of well-known models, which are shipped with HiPress: names, shapes and the order of backward."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import GradientSet, parse_gradients


def known_models() -> list[str]:
    """The names of the shipped models."""
    folder = resources.files("hipress.secopa.profile") / "models"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def known_model(name: str) -> GradientSet:
    """The gradients of a shipped model. Its release times were measured on one thread of a CPU, so only their
    proportions hold for another machine. Raises InvalidArgument for an unknown name."""
    if name not in known_models():
        raise InvalidArgument(f"no model '{name}': expected a file, MODULE:FUNCTION, or {', '.join(known_models())}")
    text = (resources.files("hipress.secopa.profile") / "models" / f"{name}.json").read_text(encoding="utf-8")
    return parse_gradients(text, f"model '{name}'")


def is_known(which: str) -> bool:
    """Whether `which` names a shipped model rather than a file."""
    return which in known_models() and not Path(which).exists()
