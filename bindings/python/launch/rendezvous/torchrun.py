# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of torchrun, through torch.distributed's key-value store."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.variables import Variables


def place_in_torchrun(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables of torchrun."""
    return Variables("torchrun", environ).place("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def from_torchrun(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """Reads the variables of torchrun; users may set them, too. The store occupies MASTER_PORT, so rank 0 binds another
    port and shares it through the store."""
    variables = Variables("torchrun", environ)
    place = place_in_torchrun(environ)
    master = variables.text("MASTER_ADDR", "the host name or address of rank 0's host")
    port = variables.integer("MASTER_PORT", 1, 65535, "a port from 1 to 65535")
    # The import is here because it imports torch, which takes seconds, and other launchers do not need torch.
    from hipress.launch.rendezvous.torch_store import StoreAddress, TorchStore

    address = StoreAddress(master, port, agent_owns_it=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
    run = environ.get("TORCHELASTIC_RUN_ID", "none")
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return meet(
        TorchStore(address, place.rank, timeout),
        place,
        source="torchrun",
        prefix=f"hipress/{run}/{restart}/rendezvous/",
        listen_to_hosts=lambda: listening.towards(master, "MASTER_ADDR"),
        timeout=timeout,
    )
