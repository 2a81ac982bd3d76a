# SPDX-License-Identifier: Apache-2.0
"""Ranks that have TensorFlow."""

from __future__ import annotations

from tests.ranks import Ranks

_ranks = Ranks("""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)
import hipress.tensorflow
""")
outcomes, run = _ranks.outcomes, _ranks.run
