# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras.callbacks' names."""

from __future__ import annotations

from hipress.tensorflow.keras.callbacks import *  # noqa: F403
