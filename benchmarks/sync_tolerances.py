# SPDX-License-Identifier: Apache-2.0
"""How far averages may be from the exact ones."""

from __future__ import annotations

import math

#: Largest relative L2 error of one synchronisation of Gaussian values against the exact average. Rounding of float32;
#: two roundings to 11 bits; onebit keeps a sign and two means, twice, and 1 would be no better than sending zeros (what
#: it drops comes with the next steps).
_TOLERANCES = {"none": 1e-6, "fp16": 2e-3, "onebit": 0.95}


def check_error(name: str, codec: str, error: float) -> None:
    """Raises RuntimeError if it is larger than rounding and the codec explain. A codec that is not known here must give
    finite values and have its error reported."""
    limit = _TOLERANCES.get(codec.partition("(")[0], math.inf)
    if not (math.isfinite(error) and error <= limit):
        raise RuntimeError(f"{name}: relative error {error:g} against the exact average; limit {limit:g}")
