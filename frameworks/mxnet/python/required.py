# SPDX-License-Identifier: Apache-2.0
"""Raises an error that says what to install if MXNet, or a NumPy that it can use, is missing."""

from __future__ import annotations

import importlib

from hipress.errors import Unsupported

_INSTALL = "pip install 'mxnet==1.9.1' 'numpy<1.24'"


def import_mxnet() -> None:
    """Raises Unsupported unless `import mxnet` works."""
    try:
        importlib.import_module("mxnet")
    except ModuleNotFoundError as error:
        if error.name != "mxnet":
            raise
        raise Unsupported(f"hipress.mxnet needs MXNet, which is not installed: {_INSTALL}") from error
    except AttributeError as error:
        # MXNet uses names that NumPy has removed, such as numpy.bool.
        raise Unsupported(f"MXNet does not run with this NumPy ({error}): {_INSTALL}") from error
