# SPDX-License-Identifier: Apache-2.0
"""horovod.keras.elastic's names."""

from __future__ import annotations

from hipress.tensorflow.keras.elastic import *  # noqa: F403
