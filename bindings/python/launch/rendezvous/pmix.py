# SPDX-License-Identifier: Apache-2.0
"""PMIx, by which Open MPI's mpirun and Slurm carry values between the processes of a job.

The separate process `_pmix_client.py` calls its client library. In this process MPI may use the library, and MPI must
be the only one to initialise it: two initialisations corrupt memory (OpenPMIx 5.0).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hipress.errors import Timeout, TransportError

#: The variable with the path of a libpmix.so.2 to use instead of the one that HiPress finds.
LIBRARY = "HIPRESS_PMIX_LIBRARY"
#: Seconds added to the deadline of the client, so that Python has time to start and PMIx' own deadline passes first.
_MARGIN = 10.0


class PmixStore:
    """The store of this rank's launcher, through PMIx."""

    def __init__(self, environ: Mapping[str, str], rank: int) -> None:
        self._environ = environ
        self._rank = rank

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """See `Store`."""
        # -I -S: the client needs no packages. The value contains the token, so standard input carries it: `ps` shows
        # arguments.
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


#: The client's exit code if the key did not arrive in time.
_TIMED_OUT = 3


def _libraries(environ: Mapping[str, str]) -> list[str]:
    """Possible paths of libpmix, the likeliest first. The system's loader finds a name without folder."""
    if given := environ.get(LIBRARY):
        return [given]
    folders = [Path(environ[name]) for name in ("OMPI_LIBDIR_LOC",) if name in environ]
    folders += [Path(environ[name]) / "lib" for name in ("PMIX_PREFIX", "PMIX_INSTALL_PREFIX") if name in environ]
    beside = [folder / part / "libpmix.so.2" for folder in folders for part in ("openmpi", "")]
    return [*(str(path) for path in beside if path.exists()), "libpmix.so.2", "libpmix.so"]
