# SPDX-License-Identifier: Apache-2.0
"""The key-value store of torch.distributed, which torchrun provides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import DistError, DistStoreError, TCPStore  # type: ignore[attr-defined]

from hipress.errors import Timeout, TransportError

#: Stores that this process serves until it ends: another rank may still read, or may use the same port for its
#: init_process_group(), which shares the server with ours (multi_tenant).
_served: list[TCPStore] = []


@dataclass(frozen=True)
class StoreAddress:
    """The address of the store. `agent_owns_it`: torchrun's agent serves it; otherwise rank 0 of the job does."""

    host: str
    port: int
    agent_owns_it: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class TorchStore:
    """A connection to the store. Raises `TransportError` if it cannot connect within `timeout` seconds."""

    def __init__(self, address: StoreAddress, rank: int, timeout: float) -> None:
        self._address = address
        self._rank = rank
        serves = rank == 0 and not address.agent_owns_it
        try:
            self._store = TCPStore(
                address.host,
                address.port,
                is_master=serves,
                timeout=timedelta(seconds=timeout),
                wait_for_workers=False,
                multi_tenant=serves,
            )
        except (DistError, RuntimeError, ValueError) as error:
            role = "serve" if serves else "reach"
            raise TransportError(
                f"rank {rank} could not {role} the torch.distributed store at MASTER_ADDR:MASTER_PORT = "
                f"{address} within {timeout:g} s: {_first_line(error)}"
            ) from error
        if serves:
            _served.append(self._store)

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """See `Store`."""
        try:
            if value is None:
                return str(self._store.get(key).decode())
            self._store.set(key, value)
            return value
        except DistStoreError as error:
            raise Timeout(
                f"rank {self._rank} waited {timeout:g} s for rank 0 to publish where ranks meet (key {key} in the "
                f"store at {self._address}); did rank 0 call init()? ({_first_line(error)})"
            ) from error
        except DistError as error:
            raise TransportError(
                f"the torch.distributed store at {self._address} failed: {_first_line(error)}"
            ) from error


def _first_line(error: BaseException) -> str:
    # torch appends a C++ backtrace.
    return str(error).strip().partition("\n")[0]
