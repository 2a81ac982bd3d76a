# SPDX-License-Identifier: Apache-2.0
"""Which network devices carry the gradients: all ranks tell their devices, and all make the same choice.

devices.py   the devices of this host
wanted.py    the user's wish
routes.py    the interface by which the kernel sends to an address
choice.py    the networks that join all hosts, and the best of them
rates.py     measured rates, where drivers do not tell them
agreement.py the exchange between the ranks
"""

from hipress.network.agreement import Chosen, agree

__all__ = ["Chosen", "agree"]
