# SPDX-License-Identifier: Apache-2.0
"""`python placed.py CMD...`: one rank under another launcher, which becomes CMD with torchrun's variables.

`hipress run -H` puts it between the launcher and the command. The ranks find rank 0's host, and a free port there, as
`init()` finds rank 0.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

from hipress.errors import HipressError
from hipress.launch.rendezvous import meeting, place_of, resolve
from hipress.launch.rendezvous.torch_variables import chosen_master, master_variables, place_variables, reserved
from hipress.options.runtime import RuntimeOptions

#: Stores that take part in the end of a job: Slurm and Hydra end it if a process that has asked PMI ends without
#: goodbye, and with the goodbye the connection ends, which init() needs.
_STORES = ("PMI_FD", "PMIX_NAMESPACE")


def variables_of_rank(environ: Mapping[str, str]) -> tuple[dict[str, str], socket.socket | None]:
    """The command's environment, and on rank 0 the socket that keeps the port of torch's store free."""
    host, port = chosen_master(environ)
    launcher = {name: value for name, value in environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    place = place_of(launcher)
    if host is None or port is None:
        meeting.count_from_before_init()
        met = resolve(_without_goodbyes(launcher), RuntimeOptions.from_environment().start_timeout)
        host, port = host or met.host, port or met.port
        if met.listen_fd is not None:
            socket.socket(fileno=met.listen_fd).close()
    keeper = reserved(port) if place.rank == 0 else None
    if keeper is not None:
        keeper.set_inheritable(True)
        port = keeper.getsockname()[1]
    return dict(environ) | place_variables(place) | master_variables(host, port), keeper


def _without_goodbyes(environ: Mapping[str, str]) -> dict[str, str]:
    # Open MPI's rank asks PMIx by a process of its own.
    kept = "OMPI_COMM_WORLD_RANK" in environ
    return {name: value for name, value in environ.items() if kept or name not in _STORES}


def main(command: list[str]) -> NoReturn:
    """Becomes the command."""
    try:
        environ, _keeper = variables_of_rank(os.environ)
        os.execvpe(command[0], command, environ)
    except HipressError as error:
        sys.exit(f"hipress run: {error}")
    except OSError as error:
        print(f"hipress run: cannot start {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv[1:])
