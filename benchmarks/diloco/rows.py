# SPDX-License-Identifier: Apache-2.0
"""Computes the rows of diloco.py from the answers of its ranks."""

from __future__ import annotations

import argparse
import platform

from benchmarks.diloco.job import ALONE, DDP, STREAMING, WAITING, Trained
from benchmarks.harness.report import Row


def rows_of(trained: dict[str, Trained], given: argparse.Namespace) -> list[Row]:
    """One row for each training."""
    return [_row(system, trained, given) for system in trained]


def reached(one: Trained, loss: float | None) -> float | None:
    """The time of the first point whose loss is not above `loss`; None: there is no such point."""
    return (
        None if loss is None else next((one.times_s[step] for step, value in one.losses.items() if value <= loss), None)
    )


def _row(system: str, trained: dict[str, Trained], given: argparse.Namespace) -> Row:
    one, ddp, alone, waiting = trained[system], *(trained.get(name) for name in (DDP, ALONE, WAITING))
    target = None if ddp is None else ddp.losses[given.ddp_steps // 2]
    time_s, of_ddp = reached(one, target), None if ddp is None else reached(ddp, target)
    waited = one.waiting_s
    if waited is None and alone is not None:
        # DDP synchronises within backward, so its wait is the difference to steps without synchronisation.
        waited = max(0.0, one.time_s - one.steps * alone.time_s / alone.steps)
    hidden = None
    if system == "streaming" and waiting is not None and waiting.waiting_s and waited is not None:
        hidden = 100 * (1 - waited / one.steps / (waiting.waiting_s / waiting.steps))
    return {
        "system": system,
        "nodes": given.nodes,
        "rate": None if given.nodes is None else given.rate,
        "round_trip_ms": None if given.nodes is None else given.round_trip,
        "world": given.world if given.nodes is None else given.nodes,
        "parameters": one.parameters,
        "steps": one.steps,
        "rank_tokens": one.steps * given.sequences * given.context,
        "sync_every": {DDP: 1, ALONE: None}.get(system, given.sync_every),
        "fragments": given.fragments if system in STREAMING else None,
        "overlap_steps": given.overlap_steps if system == "streaming" else None,
        "codec": given.streaming_codec if system in STREAMING else None,
        "learning_rate": given.learning_rate,
        "time_s": one.time_s,
        "step_ms": 1000 * one.time_s / one.steps,
        "waited_s": waited,
        "waited_percent": None if waited is None else 100 * waited / one.time_s,
        "hidden_percent": hidden,
        "sent_bytes": one.sent_bytes,
        "step_bytes": None if one.sent_bytes is None else one.sent_bytes / one.steps,
        "loss_nats": one.losses.get(one.steps),
        "equal_tokens_loss_nats": one.losses.get(given.ddp_steps),
        "target_loss_nats": target,
        "to_target_s": time_s,
        "speedup_ratio": None if time_s is None or of_ddp is None else of_ddp / time_s,
        "losses_nats": {str(step): value for step, value in one.losses.items()} or None,
        "times_s": {str(step): value for step, value in one.times_s.items()} or None,
        "seed": given.seed,
        "python": platform.python_version(),
    }
