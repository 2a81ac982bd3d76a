# SPDX-License-Identifier: Apache-2.0
"""What compression does to a training while it runs: figures, where they go, and when they say that it does harm."""

from hipress.watching.figures import Figures, TensorFigures
from hipress.watching.writers import Writer, csv_file, prometheus_file, tensorboard

__all__ = ["Figures", "TensorFigures", "Writer", "csv_file", "prometheus_file", "tensorboard"]
