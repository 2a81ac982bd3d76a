# SPDX-License-Identifier: Apache-2.0
"""PMIx, through which Open MPI's mpirun and Slurm carry values between the processes of a job.

Its client library is asked in a process of its own, `_pmix_client.py`: in this one MPI may want it, which must be the
only one to initialise it, and initialised twice it corrupts memory (OpenPMIx 5.0).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hipress.errors import Timeout, TransportError

#: A libpmix.so.2 to use instead of the one that is found.
LIBRARY = "HIPRESS_PMIX_LIBRARY"
#: For starting Python and for PMIx's own deadline to come first (seconds).
_MARGIN = 10.0


class PmixStore:
    """PMIx as this rank's launcher offers it."""

    def __init__(self, environ: Mapping[str, str], rank: int) -> None:
        self._environ = environ
        self._rank = rank

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """See `Store`."""
        # -I -S: it needs no packages. The value, which has the token in it, goes where `ps` does not show it.
        client = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_pmix_client.py"))]
        arguments = [key, str(max(1, round(timeout))), *_libraries(self._environ)]
        try:
            done = subprocess.run(
                [*client, *arguments],
                env=dict(self._environ),
                input=(value or "").encode(),
                capture_output=True,
                timeout=timeout + _MARGIN,
            )
        except subprocess.TimeoutExpired:
            raise Timeout(
                f"rank {self._rank}: PMIx, which the launcher offers, has not answered within {timeout:g} s"
            ) from None
        except OSError as error:
            raise TransportError(f"rank {self._rank} cannot start Python to ask PMIx: {error}") from error
        if done.returncode == 0:
            return done.stdout.decode()
        said = done.stderr.decode(errors="replace").strip() or f"its client ended with {done.returncode}"
        if done.returncode == _TIMED_OUT:
            raise Timeout(
                f"rank {self._rank} waited {timeout:g} s for rank 0 to publish where ranks meet (key {key} in PMIx); "
                f"did rank 0 call init()? ({said})"
            )
        raise TransportError(
            f"rank {self._rank} cannot ask PMIx, which the launcher offers, where ranks meet: {said}. "
            f"{LIBRARY} can name the launcher's libpmix.so.2."
        )


#: The client's exit code for a key that did not come.
_TIMED_OUT = 3


def _libraries(environ: Mapping[str, str]) -> list[str]:
    """Where libpmix may be, the likeliest first; a name alone is for the system's loader to find."""
    if given := environ.get(LIBRARY):
        return [given]
    folders = [Path(environ[name]) for name in ("OMPI_LIBDIR_LOC",) if name in environ]
    folders += [Path(environ[name]) / "lib" for name in ("PMIX_PREFIX", "PMIX_INSTALL_PREFIX") if name in environ]
    beside = [folder / part / "libpmix.so.2" for folder in folders for part in ("openmpi", "")]
    return [*(str(path) for path in beside if path.exists()), "libpmix.so.2", "libpmix.so"]
