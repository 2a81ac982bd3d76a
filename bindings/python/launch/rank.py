# SPDX-License-Identifier: Apache-2.0
"""One rank in the launcher: a process that leads a process group, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from hipress.launch.rank_output import RankStream

#: The exit code of a process that a signal has ended is this plus the signal's number, as in shells.
EXIT_SIGNAL = 128


class Rank:
    """One rank: its process, which leads a process group of the same number, and its outputs."""

    def __init__(
        self, index: int, process: subprocess.Popen[bytes], streams: tuple[RankStream, ...], name: str = ""
    ) -> None:
        self.index = index
        self.name = name or f"rank {index}"
        """What the launcher calls it."""
        self.process = process
        self.streams = streams
        self.status: int | None = None  # As in subprocess: an exit code, or minus a signal. None: it runs.
        self.asked = False  # The launcher has asked it to end.
        self.killed = False  # The launcher has sent SIGKILL to its group.
        self.deadline: float | None = None  # When to kill its group, in monotonic seconds.
        self.insist_at: float | None = None  # When SIGTERM follows an ignored SIGINT.
        self.over = False  # Its whole group has ended, and the launcher has waited for it.

    def signal(self, number: int) -> None:
        """Send a signal to the group. This is safe until `over`: the leader's number stays in use until wait()."""
        self.asked = True
        self.killed = self.killed or number == signal.SIGKILL
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def stands_still(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped its process."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def is_importing(self) -> bool:
        """Whether a Python process of the group has not loaded HiPress yet. Such a process has nothing to save, and an
        import may swallow KeyboardInterrupt."""
        loaded = [_loaded(pid) for pid in self._group()]
        return any("python" in os.path.basename(executable) for executable, _ in loaded) and not any(
            "libhipress.so" in libraries for _, libraries in loaded
        )

    def _group(self) -> list[int]:
        return [
            int(name) for name in os.listdir("/proc") if name.isdigit() and _group_of(int(name)) == self.process.pid
        ]

    def has_just_ended(self) -> bool:
        """Whether the leader has ended since the last call. It stays a zombie, see `signal`."""
        if self.status is not None:
            return False
        info = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return False
        self.status = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return True

    def describe_end(self) -> str:
        """The end of the rank, in words that follow its name."""
        if self.status is not None and self.status < 0:
            hint = " (out of memory?)" if self.status == -signal.SIGKILL else ""
            return f"was killed by {signal_name(-self.status)}{hint}"
        return f"exited with {self.status}"

    @property
    def exit_code(self) -> int:
        """The exit code of a launcher that ends with this rank."""
        status = self.status or 0
        return status if status >= 0 else EXIT_SIGNAL - status


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _loaded(pid: int) -> tuple[str, str]:
    """A process' executable, and the files mapped into its memory; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as maps:
            return os.readlink(f"/proc/{pid}/exe"), maps.read()
    except OSError:
        return "", ""


def signal_name(number: int) -> str:
    """The signal's name, such as SIGKILL for 9; "signal N" for real-time signals, which have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
