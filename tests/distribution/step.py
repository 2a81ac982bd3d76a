# SPDX-License-Identifier: Apache-2.0
"""A rank that needs no framework: it averages one compressed tensor with the other ranks and prints the average."""

from __future__ import annotations

import numpy as np

from hipress import _core, runtime

runtime.init()
engine = runtime.current().engine
values = np.full(10_000, 1.0 + runtime.rank(), np.float32)
spec = _core.TensorSpec("gradient", count=values.size, shape=f"[{values.size}]", codec="int8")
(handle,) = engine.agree("gradients", [spec])
engine.wait(engine.submit(handle, values, values))
print(f"average {values.mean():.2f}")
runtime.shutdown()
