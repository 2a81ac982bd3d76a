# SPDX-License-Identifier: Apache-2.0
"""The variables of torchrun, which scripts for torch.distributed, Accelerate and Lightning read at their start.

HiPress' own meeting does not use them. They say the rank's place again, and where rank 0 is to serve torch's store.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from hipress.errors import InvalidArgument, TransportError
from hipress.launch.rendezvous.place import Place

#: The store's address, as it stands in MASTER_ADDR and MASTER_PORT. With this variable a rank knows that hipress run
#: has set torchrun's variables: another launcher then says where HiPress' ranks meet.
MARK = "HIPRESS_TORCH_MASTER"


def place_variables(place: Place) -> dict[str, str]:
    """The rank's place in the names of torchrun."""
    variables = {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
    }
    # The number of the host, which Lightning reads. It follows from the place where all hosts have equally many ranks.
    host, rest = divmod(place.rank - place.local_rank, place.local_size)
    return variables | ({} if rest or place.size % place.local_size else {"GROUP_RANK": str(host)})


def master_variables(host: str, port: int) -> dict[str, str]:
    """The address at which rank 0 will serve torch's store."""
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port), MARK: f"{host}:{port}"}


def chosen_master(environ: Mapping[str, str]) -> tuple[str | None, int | None]:
    """The host and the port that the user has chosen for the store. Those of a rank are of that rank's job: None."""
    if "RANK" in environ:
        return None, None
    port = environ.get("MASTER_PORT")
    if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise InvalidArgument(f"MASTER_PORT={port!r}: expected a port from 1 to 65535 on the host of rank 0")
    return environ.get("MASTER_ADDR") or None, int(port) if port else None


def are_ours(environ: Mapping[str, str]) -> bool:
    """Whether hipress run has set torchrun's variables. A torchrun within a rank sets another address."""
    return environ.get(MARK) == f"{environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}"


def reserved(port: int = 0) -> socket.socket:
    """A socket that keeps `port` (0: any free one) for torch's store. It does not listen, so a program that asks for
    this very port with SO_REUSEADDR gets it, as torch does, and the system gives it to no other program.
    """
    family, everywhere = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    keeper = socket.socket(family, socket.SOCK_STREAM)
    try:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            keeper.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        keeper.bind((everywhere, port))
    except OSError as error:
        keeper.close()
        raise TransportError(
            f"port {port} for torch's store is not free on the host of rank 0: {error.strerror}. Start the job again, "
            f"or choose the address: --env MASTER_ADDR=… --env MASTER_PORT=…"
        ) from error
    return keeper
