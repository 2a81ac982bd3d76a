# SPDX-License-Identifier: Apache-2.0
"""The tolerances of averages."""

from __future__ import annotations

import math

#: Largest relative L2 error of one synchronisation of normally distributed values. none: rounding of float32; fp16: two
#: roundings to 11 bits; onebit: two encodings to a sign and two means, where 1 is the error of zeros. The residual of
#: onebit comes with the next steps.
_TOLERANCES = {"none": 1e-6, "fp16": 2e-3, "onebit": 0.95}


def check_error(name: str, codec: str, error: float) -> None:
    """Raises RuntimeError if the error exceeds the tolerance of the codec. A codec without a tolerance must have a
    finite error, which is reported."""
    limit = _TOLERANCES.get(codec.partition("(")[0], math.inf)
    if not (math.isfinite(error) and error <= limit):
        raise RuntimeError(f"{name}: relative error {error:g} against the exact average; limit {limit:g}")
