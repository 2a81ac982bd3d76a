# SPDX-License-Identifier: Apache-2.0
"""Cost models by the names that `--model` takes."""

from __future__ import annotations

import importlib
from typing import cast

from hipress.errors import InvalidArgument
from hipress.secopa.cost_model import CostModel
from hipress.secopa.profile import Profile

#: Module and class of each; imported when it is used.
MODELS = {
    "timeline": ("hipress.secopa.models.timeline", "TimelineModel"),
    "paper": ("hipress.secopa.models.paper", "PaperModel"),
    "released": ("hipress.secopa.models.released", "ReleasedModel"),
}


def make_model(name: str, profile: Profile, world: int) -> CostModel:
    """Raises InvalidArgument that lists the names for one that does not exist."""
    if name not in MODELS:
        raise InvalidArgument(f"no cost model '{name}'; there are: {', '.join(MODELS)}")
    module, cls = MODELS[name]
    return cast(CostModel, getattr(importlib.import_module(module), cls)(profile, world))
