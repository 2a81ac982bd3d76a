# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of horovodrun with Gloo, through its HTTP key-value store. With MPI horovodrun starts mpirun."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping

from hipress.errors import Timeout, TransportError, Unsupported
from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.variables import Variables

#: Seconds between two requests: the store answers at once, even if it does not have the key yet.
_ASK_AGAIN = 0.05


def place_in_horovodrun(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables of `horovodrun --gloo`."""
    return Variables("horovodrun --gloo", environ).place(
        "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"
    )


def from_horovodrun(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """Reads the variables of `horovodrun --gloo`."""
    if environ.get("HOROVOD_ELASTIC") == "1":
        raise Unsupported("horovodrun's elastic jobs are not supported; start it without --min-np and --max-np")
    variables = Variables("horovodrun --gloo", environ)
    place = place_in_horovodrun(environ)
    driver = variables.text("HOROVOD_GLOO_RENDEZVOUS_ADDR", "the address of horovodrun's host")
    port = variables.integer("HOROVOD_GLOO_RENDEZVOUS_PORT", 1, 65535, "a port from 1 to 65535")
    return meet(
        HorovodStore(driver, port, place.rank),
        place,
        source="horovodrun",
        prefix="rendezvous-",
        # horovodrun has found an interface that joins all hosts, and gives its own address on it.
        listen_to_hosts=lambda: listening.towards(driver, "HOROVOD_GLOO_RENDEZVOUS_ADDR"),
        timeout=timeout,
    )


class HorovodStore:
    """The store that horovodrun serves while the job runs. HiPress' keys have their own scope."""

    def __init__(self, host: str, port: int, rank: int) -> None:
        self._host = host
        self._port = port
        self._rank = rank

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """See `Store`."""
        end = time.monotonic() + timeout
        if value is not None:
            self._ask("PUT", key, value, timeout)
            return value
        while (found := self._ask("GET", key, None, max(_ASK_AGAIN, end - time.monotonic()))) is None:
            if time.monotonic() >= end:
                raise Timeout(
                    f"rank {self._rank} waited {timeout:g} s for rank 0 to publish where ranks meet (key {key} in "
                    f"horovodrun's store at {self._host}:{self._port}); did rank 0 call init()?"
                )
            time.sleep(_ASK_AGAIN)
        return found

    def _ask(self, method: str, key: str, value: str | None, timeout: float) -> str | None:
        """Sends one request and returns the answer; None if the store does not have the key."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.request(method, f"/hipress/{key}", None if value is None else value.encode())
            response = connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise TransportError(
                f"rank {self._rank} cannot use horovodrun's store at HOROVOD_GLOO_RENDEZVOUS_ADDR:PORT = "
                f"{self._host}:{self._port}: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        if response.status == 404 and method == "GET":
            return None
        if response.status != 200:
            raise TransportError(
                f"horovodrun's store at {self._host}:{self._port} answers {response.status} to {method}"
            )
        return answer
