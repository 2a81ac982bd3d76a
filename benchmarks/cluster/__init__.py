# SPDX-License-Identifier: Apache-2.0
"""Emulated nodes on one machine (cluster.py), with a command line (__main__.py)."""

from .cluster import Cluster, check_available
from .errors import EXIT_UNAVAILABLE, ClusterError, ClusterUnavailable
from .launching import launch_on
from .network import INTERFACE, Network, attach, kill, names
from .rate import PAYLOAD_SHARE, UNSHAPED, bits_per_second

__all__ = [
    "EXIT_UNAVAILABLE",
    "INTERFACE",
    "PAYLOAD_SHARE",
    "UNSHAPED",
    "Cluster",
    "ClusterError",
    "ClusterUnavailable",
    "Network",
    "attach",
    "bits_per_second",
    "check_available",
    "kill",
    "launch_on",
    "names",
]
