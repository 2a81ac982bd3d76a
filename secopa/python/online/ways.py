# SPDX-License-Identifier: Apache-2.0
"""codec="auto" of a hook: a race of the ways that gradients may travel, a look at its result, and another race when the
network has changed.

All ranks do the same in the same steps, because they decide by times on which they agree:

    first steps        a race (race.py)
    then               the fastest way; if its steps take longer than in the race, another race with the next best one
    every 10 to 160    the ranks compare the time of a step. If it has left the usual range, they look at the network;
    steps              if that has changed, there is another race. A change of the model's own work starts none.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hipress.secopa.online.race import EQUAL, Race, Way
from hipress.secopa.profile import quantities

_log = logging.getLogger("hipress.plan")

#: Steps before the first one counts: libraries choose algorithms, DistributedDataParallel forms its buckets anew.
_BEGINS_AFTER = 3
#: Steps between two comparisons: at first, and when nothing has changed for long.
_INTERVAL, _LONGEST = 10, 160
#: After the race, the first steps of an interval are not counted.
_SETTLING = 1
#: Factors by which a step's time, and a network's, must differ to count as changed.
_CHANGED, _OTHER_NETWORK = 1.25, 1.25
#: The choice was wrong if its steps take this multiple of their time in the race.
_WRONG = 1.1
#: Between two races there are so many times more steps than a race has; each further one waits twice as long.
_APART = 50


class Training(Protocol):
    """The training whose gradients travel. All ranks make the same calls."""

    def mark(self) -> Any:
        """This point in time, on the device."""

    def seconds(self, marks: Sequence[Any]) -> list[float]:
        """The times between the marks. May wait for the device."""

    def agreed(self, seconds: float) -> float:
        """The median of the ranks' numbers."""

    def seconds_per_byte(self) -> float:
        """Of a sum of many values over all ranks, by a short try; the same on all ranks."""

    def takes(self, way: Way) -> bool:
        """Whether gradients can travel this way now: a codec that keeps values has to know the loss scale."""

    def change(self, way: Way) -> None:
        """Gradients travel this way from now on."""


class AutomaticWays:
    """Chooses among the ways, the most exact one first. `steps_begin()` is called in each step at the same place.

    Arguments:
        says: whether this rank writes to the log.
    """

    def __init__(self, training: Training, ways: Sequence[Way], *, says: bool) -> None:
        self._training, self._given, self._says = training, tuple(ways), says
        self._ways = self._given
        self._steps = 0
        self._race: Race | None = None
        self._marks: list[Any] = []
        self._way: Way | None = None
        self._seconds_per_byte = 0.0
        self._interval = _INTERVAL
        self._usual_s: float | None = None
        self._outside = 0
        self._races = 0
        self._next_race = 0
        # Steps have changed before another race was due: the network is looked at when it is.
        self._looks_later = False
        self._duel = False
        # Of the choice in its race, and of the next best way.
        self._expected: tuple[float, Way, float] | None = None
        self._loaded: tuple[Way, float] | None = None

    @property
    def chosen(self) -> Way | None:
        """The way that has won; None while a race runs."""
        return None if self._race is not None else self._way

    def state_dict(self) -> dict[str, Any]:
        """What another job may begin with; empty before the first choice."""
        if self._race is not None or self._way is None:
            return {}
        return {
            "codec": self._way.codec,
            "topology": self._way.topology,
            "seconds_per_byte": self._seconds_per_byte,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begins with the choice of an earlier job, without a race if the network is about the same. All ranks call
        it."""
        self._race, self._way, self._marks, self._loaded = None, None, [], None
        if not state:
            return
        found = [each for each in self._given if (each.codec, each.topology) == (state["codec"], state["topology"])]
        if found:
            self._training.change(found[0])  # codec states of the checkpoint are this codec's
            self._loaded = found[0], float(state["seconds_per_byte"])
        else:
            self._say(f"the checkpoint's choice, {state['codec']} over {state['topology']}, is not among the ways here")

    def step_begins(self) -> None:
        """A step's first gradients are about to travel. This call may change the way, and measure for some time."""
        self._steps += 1
        if self._way is None:
            self._begin()
            return
        self._marks.append(self._training.mark())
        if self._race is None:
            if len(self._marks) == _SETTLING + self._interval + 1:
                self._interval_ended(self._median(_SETTLING))
                self._marks = [self._training.mark()]
            return
        block = self._race.block
        assert block is not None
        if len(self._marks) == block.steps + 1:
            self._race.ended(self._median(block.settling))
            self._go_on()

    def _median(self, settling: int) -> float:
        return self._training.agreed(statistics.median(self._training.seconds(self._marks)[settling:]))

    def _begin(self) -> None:
        self._seconds_per_byte = self._training.seconds_per_byte()
        self._ways = tuple(way for way in self._given if self._training.takes(way))
        without = [str(way) for way in self._given if way not in self._ways]
        if without:
            self._say(f"leaves out {', '.join(without)}: they keep values, and the loss scaler was not handed over")
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            way, before = loaded
            if way in self._ways and _ratio(before, self._seconds_per_byte) <= _OTHER_NETWORK:
                self._say(f"goes on with {way}, the checkpoint's choice")
                self._way = way
                self._follow(way)
                return
            self._say(f"the checkpoint chose {way} on another network")
        self._start_race(self._ways)

    def _start_race(self, ways: Sequence[Way]) -> None:
        self._race = Race(ways, self._seconds_per_byte, _BEGINS_AFTER)
        if self._race.block is not None and not self._duel:
            self._say("tries " + ", ".join(map(str, ways)))
        self._go_on()

    def _go_on(self) -> None:
        race = self._race
        assert race is not None
        if race.block is not None:
            self._take(race.ways[race.block.way])
            return
        self._race = None
        way, times = race.ways[race.choice], race.seconds
        if not self._duel:
            self._races += 1
            self._next_race = self._steps + _APART * race.steps * 2 ** (self._races - 1)
        if not self._duel and race.runner_up is not None:
            self._expected = (times[race.choice], race.ways[race.runner_up], times[race.runner_up])
        self._duel = False
        self._say(_told(race))
        self._follow(way)

    def _follow(self, way: Way) -> None:
        self._interval, self._usual_s, self._outside = _INTERVAL, None, 0
        self._take(way)

    def _take(self, way: Way) -> None:
        if way is not self._way:
            self._training.change(way)
            self._way = way
        self._marks = [self._training.mark()]

    def _interval_ended(self, median_s: float) -> None:
        expected, self._expected = self._expected, None
        if self._usual_s is None:
            if expected is not None and self._was_wrong(expected, median_s):
                return
            self._usual_s = median_s
            if expected is not None:
                self._say(
                    f"a step with {self._way} takes {quantities.seconds(median_s)}, "
                    f"in the race {quantities.seconds(expected[0])}"
                )
            return
        side = (median_s > self._usual_s * _CHANGED) - (median_s * _CHANGED < self._usual_s)
        self._outside = side if side * self._outside <= 0 else self._outside + side
        if abs(self._outside) >= 2 or (self._looks_later and self._steps >= self._next_race):
            self._look_at_network(median_s)
        elif side == 0:
            self._interval = min(2 * self._interval, _LONGEST)

    def _was_wrong(self, expected: tuple[float, Way, float], median_s: float) -> bool:
        took_s, second, second_s = expected
        if median_s <= took_s * _WRONG or median_s <= second_s * EQUAL:
            return False
        assert self._way is not None
        self._say(
            f"a step with {self._way} takes {quantities.seconds(median_s)}, in the race {quantities.seconds(took_s)}; "
            f"{second} took {quantities.seconds(second_s)}: both are tried again"
        )
        self._duel = True
        self._start_race(sorted((self._way, second), key=self._ways.index))
        return True

    def _look_at_network(self, median_s: float) -> None:
        before_s, self._usual_s, self._outside = self._usual_s, median_s, 0
        self._interval = _INTERVAL
        self._looks_later = self._steps < self._next_race
        if self._looks_later:
            return
        now = self._training.seconds_per_byte()
        if _ratio(now, self._seconds_per_byte) <= _OTHER_NETWORK:
            return  # the model's own work has changed
        self._seconds_per_byte = now
        assert before_s is not None
        self._say(
            f"the network has changed: a step took {quantities.seconds(before_s)}, and takes "
            f"{quantities.seconds(median_s)}"
        )
        self._start_race(self._ways)

    def _say(self, what: str) -> None:
        if self._says:
            _log.info('step %d, codec="auto": %s', self._steps, what)


def _ratio(one: float, other: float) -> float:
    smaller, larger = sorted((one, other))
    return larger / max(smaller, 1e-15)


def _told(race: Race) -> str:
    if not race.seconds:
        return f"{race.ways[race.choice]}: it is the only way"
    times = [f"{race.ways[way]} {quantities.seconds(time)}" for way, time in race.seconds.items()]
    left_out = [str(way) for index, way in enumerate(race.ways) if index not in race.seconds]
    text = f"{race.ways[race.choice]} is the fastest, or as fast and more exact: a step takes with {', '.join(times)}"
    return text + (f"; not tried, as their messages alone take longer: {', '.join(left_out)}" if left_out else "")
