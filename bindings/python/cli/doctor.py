# SPDX-License-Identifier: Apache-2.0
"""Finds out which parts of HiPress work on this machine, which are missing, and how to get them.

Checks are independent: an error of one check becomes its text, and the other checks run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from hipress.errors import InvalidArgument
from hipress.network.choice import by_speed
from hipress.network.devices import LOOPBACK, NO_RDMA, Device, list_text
from hipress.network.wanted import Wanted

#: ok: it works. info: a fact, or a missing optional part. warning: it works badly. failed: it does not work.
Status = Literal["ok", "info", "warning", "failed"]

#: Deadline of one probe (seconds). The import of a large framework from a slow disk is slow; a hang would never end.
PROBE_TIMEOUT = 60.0
#: The instruction sets that the codecs' vector code uses, by their names in /proc/cpuinfo.
INSTRUCTION_SETS = ("sse4_2", "avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512_bf16", "asimd", "sve")
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
_AGAIN = "install it again: pip install --force-reinstall --no-deps and the wheel, or . in the source of HiPress"


@dataclass(frozen=True)
class Check:
    """One finding. `detail`: the fact. `advice`: what to do (empty: nothing). `data`: the fact for programs."""

    name: str
    status: Status
    detail: str
    advice: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All findings. `ok`: the core library works, so training is possible."""

    version: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether the core loads; all other parts may be missing."""
        return any(check.name == "core" and check.status == "ok" for check in self.checks)


def examine(version: str, timeout: float = PROBE_TIMEOUT, ranks: int = 2) -> Report:
    """Run all checks, in the time of the slowest probe, at most `timeout` seconds. Never raises.

    Arguments:
        ranks: the number of ranks that this host will have.
    """
    with ThreadPoolExecutor() as pool:
        core_facts = pool.submit(run_probe, "core", timeout=timeout)
        checks: list[tuple[str, Callable[[], Check]]] = [
            ("core", lambda: check_core(core_facts.result())),
            ("UCX", lambda: check_ucx(core_facts.result())),
            ("network", lambda: check_network(core_facts.result())),
            ("codecs", lambda: check_codecs(core_facts.result())),
            ("CPU", check_cpu),
            ("GPUs", lambda: check_gpus(run_probe("gpus", timeout=timeout))),
            *((name, lambda name=name: check_framework(name, timeout)) for name in FRAMEWORKS),
            (
                "shared memory",
                lambda: check_shared_memory(run_probe("shared_memory", str(ranks), timeout=timeout), ranks),
            ),
        ]
        return Report(version, tuple(pool.map(lambda item: _guarded(*item), checks)))


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the report as text, coloured on a terminal, or as one JSON object."""
    if as_json:
        found = [asdict(check) for check in report.checks]
        print(json.dumps({"hipress": report.version, "ok": report.ok, "checks": found}, indent=2, default=str))
        return
    from rich.console import Console
    from rich.text import Text

    styles = {"ok": "green", "info": "cyan", "warning": "yellow", "failed": "red"}
    # Users copy the report, so it has no wrapped lines and no highlighting.
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"hipress {report.version}", "bold"))
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        console.print(Text(f"{check.status:>7}", styles[check.status]), Text(f"{check.name:<{width}}  {check.detail}"))
        if check.advice:
            console.print(Text(f"{'':>7} {'':<{width}}  -> {check.advice}", "bold"))


def run_probe(*arguments: str, timeout: float) -> dict[str, Any]:
    """Runs a probe (hipress.cli.probes) in a separate process and returns its facts; the key "error" has its error."""
    # The probe gets this process' search path, so that it finds the same files.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-m", "hipress.cli.probes", *arguments]
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:g} s"}
    except OSError as error:
        return {"error": f"cannot start Python: {error}"}
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    try:
        facts = json.loads(lines[-1])
    except (IndexError, ValueError):
        facts = None
    if isinstance(facts, dict):
        return facts
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    end = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"exited with {done.returncode}"
    return {"error": " ".join([f"the process {end}", *last])}


def check_core(facts: dict[str, Any]) -> Check:
    """Whether the compiled module loads."""
    if "error" in facts:
        return Check("core", "failed", str(facts["error"]), _AGAIN, facts)
    return Check("core", "ok", f"loaded from {facts.get('file', 'unknown')}", data={"file": facts.get("file")})


def check_ucx(facts: dict[str, Any]) -> Check:
    """The version of UCX, the file it was loaded from, and its transports."""
    try:
        package = f"package libucx-cu12 {metadata.version('libucx-cu12')}"
    except metadata.PackageNotFoundError:
        package = "package libucx-cu12 not installed"
    ucx = facts.get("ucx")
    if not isinstance(ucx, dict):
        reason = facts.get("ucx_error", "the core is not there to ask" if "error" in facts else "the core does not say")
        missing = "not installed" in package
        advice = "pip install libucx-cu12" if missing else ""
        return Check("UCX", "warning" if missing else "info", f"unknown: {reason}; {package}", advice)
    transports = [str(name) for name in ucx.get("transports", ())]
    detail = (
        f"{ucx.get('version', 'unknown version')} from {ucx.get('library', 'unknown')} ({package}), "
        f"transports: {', '.join(transports) or 'none'}"
    )
    if not transports:
        return Check("UCX", "failed", detail, "check UCX_TLS and UCX_NET_DEVICES; without them all are tried", ucx)
    return Check("UCX", "ok", detail, data=ucx)


def check_network(facts: dict[str, Any]) -> Check:
    """The network devices for gradients, the fastest first, with their rates; the other devices, with reasons."""
    if "network" not in facts:
        return Check("network", "info", f"unknown: {facts.get('network_error', 'the core is not there to ask')}")
    devices = [Device(**each) for each in facts["network"]]
    data = {"devices": facts["network"], "HIPRESS_NET": os.environ.get("HIPRESS_NET", "")}
    try:
        wanted = Wanted.parse(os.environ.get("HIPRESS_NET", ""))
    except InvalidArgument as error:
        return Check("network", "failed", str(error), "correct HIPRESS_NET, or unset it", data)
    usable = sorted((each for each in devices if not each.problem), key=by_speed)
    allowed = [each for each in usable if wanted.allows(each)]
    rest = [each for each in devices if each not in allowed and each.problem != LOOPBACK]
    detail = f"to other hosts: {list_text(allowed)}; not: {list_text(rest)}"
    if wanted.elements:
        detail += f" (HIPRESS_NET={wanted.text})"
    if not allowed and wanted.elements:
        return Check("network", "failed", detail, "name another device, or unset HIPRESS_NET", data)
    if any(each.kind == "rdma" and each.problem == NO_RDMA for each in devices):
        advice = "use a UCX built for it, such as the cluster's own: RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY=1"
        return Check("network", "warning", detail, advice, data)
    return Check("network", "ok" if allowed else "info", detail, data=data)


def check_codecs(facts: dict[str, Any]) -> Check:
    """Which codecs the core knows."""
    if "codecs" not in facts:
        return Check("codecs", "info", f"unknown: {facts.get('codecs_error', 'the core does not say')}")
    codecs = facts["codecs"]
    # `codecs` is a list of names, a list of objects with a name, or a mapping by name.
    names = sorted(str(item.get("name", "?")) if isinstance(item, dict) else str(item) for item in codecs)
    detail = ", ".join(names) or "none"
    if "isa" in facts:
        detail += f" (vector code: {facts['isa']})"
    return Check("codecs", "ok" if names else "failed", detail, data={"codecs": codecs, "isa": facts.get("isa")})


def check_cpu() -> Check:
    """The processor's model, the cores that this process may use, and the instruction sets that the codecs use."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    sets = [name for name in INSTRUCTION_SETS if name in flags]
    model = fields.get("model name") or platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0))
    data = {"model": model, "cores": cores, "instruction_sets": sets}
    return Check("CPU", "ok", f"{model}, {cores} cores usable, {' '.join(sets) or 'no vector instructions'}", "", data)


def check_gpus(facts: dict[str, Any]) -> Check:
    """The GPUs that the driver shows, and whether HiPress can use them."""
    if "error" in facts:
        return Check("GPUs", "warning", str(facts["error"]), "check the driver with nvidia-smi", facts)
    if facts.get("driver") is None:
        return Check("GPUs", "info", "no NVIDIA driver: tensors are synchronised on the CPU", data=facts)
    gpus = facts.get("gpus") or []
    compiler = f", kernels compiled by NVRTC {facts['nvrtc']}" if "nvrtc" in facts else ""
    detail = f"{len(gpus)} ({', '.join(gpus) or 'none'}), driver for {facts['driver']}{compiler}"
    if gpus and facts.get("unusable"):
        return Check("GPUs", "warning", f"{detail}; {facts['unusable']}", data=facts)
    return Check("GPUs", "ok" if gpus else "info", detail, data=facts)


def check_framework(name: str, timeout: float) -> Check:
    """Whether the framework `name` and HiPress' adapter for it are installed and can be imported."""
    if importlib.util.find_spec(name) is None:
        return Check(name, "info", "not installed", data={"installed": False})
    facts = run_probe("framework", name, timeout=timeout)
    data = {"installed": True, **facts}
    if "error" in facts:
        advice = facts.get("advice", f"reinstall {name}")
        return Check(name, "failed", f"installed, but does not import: {facts['error']}", advice, data)
    if "advice" in facts:
        detail = f"{facts['version']}, but hipress.{name} does not work with it"
        return Check(name, "failed", detail, facts["advice"], data)
    if "adapter_error" in facts:
        detail = f"{facts['version']}, but hipress.{name} does not import: {facts['adapter_error']}"
        return Check(name, "failed", detail, _AGAIN, data)
    return Check(name, "ok", f"{facts['version']}, and hipress.{name} works with it", data=data)


def check_shared_memory(facts: dict[str, Any], ranks: int) -> Check:
    """The shared memory in which `ranks` ranks of this host exchange messages: its size, and whether it is enough."""
    if "error" in facts:
        return Check("shared memory", "info", f"unknown: {facts['error']}", data=facts)
    found = f"{facts['folder']}: {_mebibytes(facts['size'])}, {_mebibytes(facts['free'])} free"
    if "problem" in facts:
        return Check("shared memory", "failed", found, facts["problem"], facts)
    kind = facts["kind"]
    if "tight" in kind or "tiniest" in kind:
        advice = f"large messages are slower; give it {_mebibytes(facts['needed'])} (docker run --shm-size)"
        return Check("shared memory", "warning", f"{found}: little for {ranks} ranks", advice, facts)
    take = {"system_v": "System V segments, which it does not limit", "none": "none"}.get(kind, "it")
    return Check(
        "shared memory", "ok", f"{found}; {ranks} {'rank takes' if ranks == 1 else 'ranks take'} {take}", "", facts
    )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:
        return Check(name, "failed", f"the check itself failed: {type(error).__name__}: {error}")
