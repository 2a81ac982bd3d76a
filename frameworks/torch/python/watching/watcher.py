# SPDX-License-Identifier: Apache-2.0
"""Watches the averages of one optimizer or model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from hipress.log import logger
from hipress.torch.watching.samples import Samples
from hipress.torch.watching.schedule import Schedule
from hipress.watching.figures import Figures
from hipress.watching.harm import OnHarm
from hipress.watching.writers import Writer


class Way(Protocol):
    """A way in whose averages are watched."""

    def tensors(self) -> Mapping[str, tuple[int, str]]:
        """The real elements and the codec of each gradient that travels with one, by name. The same on all ranks."""

    def is_alive(self) -> bool:
        """Whether the optimizer or model is still there."""

    def device(self) -> torch.device:
        """Where the gradients are."""

    def start_average(self, values: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Starts averaging values of all ranks exactly, as the way averages gradients; the result waits for it."""

    def sent_bytes(self) -> int:
        """What this rank has sent so far."""

    def safer(self, name: str, codec: str) -> None:
        """Lets a gradient travel with a safer codec from the next step on. All ranks call it between two steps."""


class Watcher:
    """A way in tells it of each step: begin(), then before() and after() for gradients, then given() and end().

    Arguments:
        way: whose averages they are.
        schedule: which steps are watched.
        places: how many values of each gradient are sampled.
        on_harm: what happens when the figures say that compression does harm.
        writers: they get the figures of each window, on this rank.
    """

    def __init__(
        self,
        way: Way,
        schedule: Schedule,
        places: int,
        on_harm: OnHarm,
        writers: Sequence[Writer] = (),
    ) -> None:
        self._way, self._schedule, self._places = way, schedule, places
        self._on_harm = on_harm
        self._writers = tuple(writers)
        self._samples: Samples | None = None
        self._exact: Callable[[], torch.Tensor] | None = None
        self._watched = 0  # steps of the window that have ended
        self._rests_until = 0
        self._sent = 0
        self._began = self._waited = 0.0
        #: Of the last window; None: no window has ended.
        self.figures: Figures | None = None

    def is_alive(self) -> bool:
        """Whether the optimizer or model is still there."""
        return self._way.is_alive()

    @property
    def is_on(self) -> bool:
        """Whether the current step is watched."""
        return self._samples is not None

    def begin(self, step: int) -> None:
        """The first gradient of the step after so many steps is there; on all ranks."""
        self.end(step)
        if self._schedule.begins(step) and step >= self._rests_until:
            self._samples = Samples(self._way.tensors(), self._places, step, self._way.device())
            self._watched, self._sent = 0, self._way.sent_bytes()
            self._began, self._waited = time.monotonic(), 0.0
        if self._samples is not None:
            self._samples.begin_step()

    def before(self, name: str, gradient: torch.Tensor) -> None:
        """This rank's gradient, before it becomes the average."""
        if self._samples is not None:
            self._samples.before(name, gradient)

    def after(self, name: str, average: torch.Tensor) -> None:
        """The average of all ranks."""
        if self._samples is not None:
            self._samples.after(name, average)

    def given(self) -> None:
        """All gradients of the step are given; on all ranks in the same order of collectives."""
        if self._samples is not None:
            self._exact = self._way.start_average(self._samples.own.clone())

    def waited(self, seconds: float) -> None:
        """This rank has waited so long for the averages of a step."""
        self._waited += seconds

    def end(self, step: int) -> None:
        """All averages of the step are there, and so many steps have been taken. Between two steps, on all ranks."""
        samples, exact = self._samples, self._exact
        if samples is None or exact is None:
            return
        self._exact = None
        samples.end_step(exact())
        self._watched += 1
        if self._watched == self._schedule.window:
            self._samples = None
            self._close(samples, step)

    def drop(self) -> None:
        """The window ends without figures: its ranks are others now."""
        self._samples = self._exact = None

    def _close(self, samples: Samples, step: int) -> None:
        seconds, counted = time.monotonic() - self._began, samples.counted()
        self.figures = Figures(
            step=step,
            steps=counted,
            not_finite=self._watched - counted,
            sent_bytes=(self._way.sent_bytes() - self._sent) / self._watched,
            waited_s=self._waited / self._watched,
            step_s=seconds / self._watched,
            tensors=samples.figures(),
        )
        for write in self._writers:
            self._write(write, self.figures)
        if self._on_harm.look(self.figures, self._way.safer):
            # The next average gets what the old codec had not sent: it would be taken for an error.
            self._rests_until = step + self._schedule.window

    def _write(self, write: Writer, figures: Figures) -> None:
        """A writer that raises does not end the training. It gets no more."""
        try:
            write(figures)
        except Exception as error:
            self._writers = tuple(each for each in self._writers if each is not write)
            logger().error("a writer of figures failed, and gets no more: %s: %s", type(error).__name__, error)
