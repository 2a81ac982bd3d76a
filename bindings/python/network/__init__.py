# SPDX-License-Identifier: Apache-2.0
"""Chooses the network devices that carry the gradients: all ranks exchange their devices and make the same choice.

devices.py   the devices of this host
wanted.py    the user's setting
routes.py    the interface by which the kernel sends to an address
choice.py    the networks that join all hosts, and the best of them
rates.py     measured rates, if drivers do not tell them
agreement.py the exchange between the ranks
"""

from hipress.network.agreement import Chosen, agree

__all__ = ["Chosen", "agree"]
