# SPDX-License-Identifier: Apache-2.0
"""The class that a distributed optimizer gets: derived from a distributed class and the optimizer's original class."""

from __future__ import annotations

import sys
from typing import Any

import keras


def distributed_class(kind: type, own: type) -> type:
    """The class derived from `kind` and `own`. It keeps the original name and registration, so that a saved model loads
    without HiPress."""
    subclasses: list[type] = type.__subclasses__(own)
    for each in subclasses:  # one class for all optimizers of a class: the registries below keep it
        if each.__bases__ == (kind, own):
            return each
    made: type = type(own)(own.__name__, (kind, own), {"__module__": own.__module__})
    for library in (keras, sys.modules.get("tf_keras")):
        if library is not None:
            _register_as(library.saving, made, own)
    return made


def _register_as(saving: Any, made: type, own: type) -> None:
    """Makes `saving` write the registered name of `own` for objects of the class `made`, and still load `own`."""
    registered = saving.get_registered_name(own)
    package, found, name = registered.partition(">")
    if found:
        loaded = saving.get_registered_object(registered) or own
        saving.register_keras_serializable(package, name)(made)
        saving.register_keras_serializable(package, name)(loaded)
