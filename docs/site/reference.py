# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of the reference from the docstrings: one page for each module with public names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

#: The modules whose `__all__` is the public interface.
MODULES = (
    "hipress",
    "hipress.codecs",
    "hipress.torch",
    "hipress.torch.ddp",
    "hipress.torch.elastic",
    "hipress.torch.fsdp",
    "hipress.torch.grace",
    "hipress.torch.integrations.accelerate",
    "hipress.torch.integrations.lightning",
    "hipress.torch.integrations.torchft",
    "hipress.torch.integrations.transformers",
    "hipress.torch.optim",
    "hipress.torch.process_groups",
    "hipress.tensorflow",
    "hipress.tensorflow.elastic",
    "hipress.tensorflow.keras",
    "hipress.tensorflow.keras.callbacks",
    "hipress.tensorflow.keras.elastic",
    "hipress.tensorflow.keras.optim",
    "hipress.mxnet",
    "hipress.mxnet.optim",
    "hipress.compll",
    "hipress.weights",
    "hipress.network",
)
FOLDER = Path("docs/reference")


def package() -> Path:
    """The installed package, which has the types of the C++ module."""
    found = importlib.util.find_spec("hipress")
    if found is None or found.origin is None:
        raise SystemExit("hipress is not installed here: run `make install`, then `make docs`")
    return Path(found.origin).parent


def pages() -> dict[Path, str]:
    """Markdown by path."""
    index = ["# Reference", "", "Every public name, from the docstrings. [Errors](hipress.md) are in `hipress`.", ""]
    written = {}
    for module in MODULES:
        index.append(f"- [`{module}`]({module}.md)")
        written[FOLDER / f"{module}.md"] = (
            f"# `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false\n"
        )
    written[FOLDER / "README.md"] = "\n".join(index) + "\n"
    return written
