# SPDX-License-Identifier: Apache-2.0
"""horovod.keras' names: `import hipress.horovod.keras as hvd`. Keras 3 runs on TensorFlow here."""

from __future__ import annotations

from hipress.horovod.tensorflow import keras
from hipress.horovod.tensorflow.keras import *  # noqa: F403

__all__ = list(keras.__all__)
