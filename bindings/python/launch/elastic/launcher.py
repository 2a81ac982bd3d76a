# SPDX-License-Identifier: Apache-2.0
"""`hipress run --elastic`: starts the processes of a job whose ranks may come and go."""

from __future__ import annotations

import secrets
import socket
import time
from dataclasses import dataclass, replace

from hipress.errors import InvalidArgument
from hipress.launch.elastic.discovery import Discovery
from hipress.launch.elastic.hosts import TOKEN, is_here, remote_command
from hipress.launch.elastic.job import ElasticJob
from hipress.launch.elastic.membership import ElasticSizes, Membership
from hipress.launch.elastic.server import MembershipServer
from hipress.launch.launcher import LaunchOptions, caught_signals, check, environment_of_ranks, run_job, start_process
from hipress.launch.rank import Rank
from hipress.launch.worlds.seat import ADDRESS, NUMBER, TIMEOUT

_HERE = "127.0.0.1"
#: A rank that has stopped is lost after so many seconds: elastic jobs go on within 10 s.
_HEARTBEAT_LIMIT = "4"


@dataclass(frozen=True)
class ElasticOptions:
    """How many ranks a job may have. LaunchOptions.size is the number of processes that it starts with."""

    least: int
    most: int
    timeout: float = 600.0  # Seconds for which a job waits while it has too few ranks.
    restarts: int = 10  # How often the process of a slot is started again.
    discovery: str | None = None  # A program that prints the hosts; None: all processes are on this host.
    slots: int | None = None  # Of a host that it prints without a number; None: as many as the job begins with.


def launch_elastic(options: LaunchOptions, elastic: ElasticOptions) -> int:
    """Runs an elastic job to its end and returns its exit code: 0 if the training has ended well on a rank.

    A process that fails is started again while the others go on. Otherwise it is launch(). Raises InvalidArgument.
    """
    check(options)
    if not 1 <= elastic.least <= options.size <= elastic.most:
        raise InvalidArgument(
            f"--min-np {elastic.least}, -np {options.size} and --max-np {elastic.most}: expected 1 or more, and none "
            "above the next"
        )
    if not 0 < elastic.timeout < 1e9:
        raise InvalidArgument(f"--elastic-timeout {elastic.timeout:g}: expected seconds above 0")
    if elastic.slots is not None and elastic.slots < 1:
        raise InvalidArgument(f"--slots-per-host {elastic.slots}: expected 1 or more")
    if elastic.restarts < 0:
        raise InvalidArgument(f"--restarts {elastic.restarts}: expected 0 or more")
    sizes = ElasticSizes(elastic.least, elastic.most, timeout=elastic.timeout)
    token = secrets.token_hex(16)
    with caught_signals() as wakeup:
        membership = Membership(sizes, time.monotonic())
        discovery = None
        if elastic.discovery is not None:
            discovery = Discovery(elastic.discovery, elastic.slots or options.size)
            discovery.first()
        server = MembershipServer(membership, token, _HERE if discovery is None else "")
        try:
            job = ElasticJob(wakeup, membership, server, grace=options.grace, timeout=options.timeout)
            return run_job(job, options, lambda: _start(job, options, elastic, server.port, token, discovery))
        finally:
            server.close()
            if discovery is not None:
                discovery.close()


def _start(
    job: ElasticJob,
    options: LaunchOptions,
    elastic: ElasticOptions,
    port: int,
    token: str,
    discovery: Discovery | None,
) -> None:
    base = environment_of_ranks(options)
    for name in ("HIPRESS_RANK", "HIPRESS_SIZE", "HIPRESS_LOCAL_RANK", "HIPRESS_LOCAL_SIZE", "HIPRESS_RENDEZVOUS"):
        base.pop(name, None)
    base.setdefault("HIPRESS_HEARTBEAT_LIMIT", _HEARTBEAT_LIMIT)
    base |= {TIMEOUT: f"{elastic.timeout:g}", TOKEN: token}

    def start(number: int, host: str) -> Rank:
        name = f"process {number}"
        if is_here(host):
            own = base | {NUMBER: str(number), ADDRESS: f"{_HERE}:{port}"}
            return start_process(job, options, number, own, name=name)
        own = base | {NUMBER: str(number), ADDRESS: f"{_address_towards(host)}:{port}"}
        command, stdin = remote_command(host, options.command, own, options.env, options.grace)
        remote = replace(options, command=tuple(command))
        return start_process(job, remote, number, base, name=f"{name} on {host}", stdin=stdin)

    job.start = start
    job.follow(discovery, elastic.most, elastic.restarts)
    hosts = {_HERE: options.size} if discovery is None else discovery.hosts
    job.use_hosts(hosts, options.size if discovery is None else elastic.most)


def _address_towards(host: str) -> str:
    """The address of this machine that the host can reach. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # it sends nothing
        return str(probe.getsockname()[0])
