# SPDX-License-Identifier: Apache-2.0
"""The cost models by the names that `--model` takes. A new model needs an entry in MODELS."""

from __future__ import annotations

import importlib
from typing import cast

from hipress.errors import InvalidArgument
from hipress.secopa.models.cost_model import CostModel
from hipress.secopa.profile.profile import Profile

#: Module and class of each model. A module is imported when a command uses its model.
MODELS = {
    "timeline": ("hipress.secopa.models.timeline", "TimelineModel"),
    "paper": ("hipress.secopa.models.paper", "PaperModel"),
    "released": ("hipress.secopa.models.released", "ReleasedModel"),
}


def make_model(name: str, profile: Profile, world: int) -> CostModel:
    """The model of that name for a profile and a number of ranks. Raises InvalidArgument for an unknown name."""
    if name not in MODELS:
        raise InvalidArgument(f"no cost model '{name}'; there are: {', '.join(MODELS)}")
    module, cls = MODELS[name]
    return cast(CostModel, getattr(importlib.import_module(module), cls)(profile, world))
