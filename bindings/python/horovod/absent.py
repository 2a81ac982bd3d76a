# SPDX-License-Identifier: Apache-2.0
"""Names of Horovod that HiPress does not have. A module raises Unsupported, with advice, for such a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from hipress.errors import Unsupported

_JOBS = "start the job with `hipress run`, torchrun, mpirun, srun or horovodrun"

#: Module of Horovod → name in it → advice.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "horovod": {
        "data": "load each rank's part of the data with the framework's own loader",
        "ray": _JOBS,
        "run": _JOBS,
        "spark": _JOBS,
    },
    "torch": {},
    "tensorflow": {
        "BroadcastGlobalVariablesHook": "run broadcast_global_variables(root_rank) in the session before training",
    },
    "tensorflow.keras": {},
    "keras": {},
    "mxnet": {},
}


def refusal(module: str, name: str) -> Unsupported:
    """The error that a module raises for the name."""
    return Unsupported(f"HiPress has no {name} of horovod{_suffix(module)}: {ABSENT[module][name]}")


def refusing(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` for HiPress' module with the names of Horovod's `module`."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807  (a module's)
        if name in ABSENT[module]:
            raise refusal(module, name)
        raise AttributeError(f"HiPress' module with the names of horovod{_suffix(module)} has no attribute '{name}'")

    return __getattr__


def _suffix(module: str) -> str:
    return "" if module == "horovod" else f".{module}"
