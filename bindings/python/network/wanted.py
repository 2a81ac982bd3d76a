# SPDX-License-Identifier: Apache-2.0
"""The user's setting of the network for gradients: the option `network` of init(), HIPRESS_NET."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.network.devices import Device

KINDS = ("rdma", "tcp")


@dataclass(frozen=True)
class Wanted:
    """The allowed devices, subnets, addresses and kinds. An empty setting allows every device."""

    text: str
    elements: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Wanted:
        """Reads elements such as "eth1", "mlx5_0:1", "10.0.0.0/16", "rdma" and "tcp", separated by commas.

        Raises InvalidArgument for a malformed subnet.
        """
        elements = tuple(element for each in text.split(",") if (element := each.strip()))
        if text.strip() and not elements:
            raise InvalidArgument(f"{describe(text)} names nothing: {EXPECTED}")
        for element in elements:
            if "/" in element:
                try:
                    ipaddress.ip_network(element, strict=False)
                except ValueError:
                    raise InvalidArgument(
                        f"{describe(text)}: {element!r} is not a subnet such as 10.0.0.0/16"
                    ) from None
        return Wanted(text, elements)

    def allows(self, device: Device) -> bool:
        """Whether gradients may use this device."""
        return not self.elements or any(matches(element, device) for element in self.elements)


EXPECTED = "expected devices (eth1, mlx5_0:1), subnets (10.0.0.0/16) or kinds (rdma, tcp), separated by commas"


def describe(text: str) -> str:
    """The setting as errors show it."""
    return f"network={text!r} (HIPRESS_NET)"


def matches(element: str, device: Device) -> bool:
    """Whether an element of the setting matches this device."""
    if element.lower() in KINDS:
        return element.lower() == device.kind
    if element in (device.name, device.name.partition(":")[0]):
        return True
    try:
        subnet = ipaddress.ip_network(element, strict=False)
    except ValueError:
        return False
    return bool(device.ip) and ipaddress.ip_address(device.ip) in subnet
