# SPDX-License-Identifier: Apache-2.0
"""What codecs over a process group hold back, in DiLoCo's states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hipress.errors import HipressError, InvalidArgument
from hipress.torch.diloco.averaging import Averaging
from hipress.torch.states.state_sum import check_sum, with_sum


def saved_codecs(averaging: Averaging, rank: int, world: int) -> dict[str, Any] | None:
    """The value of "codecs" in the state of rank `rank` of `world`; None: this way of averaging has no codec states."""
    own = averaging.codec_states()
    return None if own is None else {"rank": rank, "world": world, **with_sum(own)}


@contextmanager
def unchanged_by_errors(averaging: Averaging) -> Iterator[None]:
    """A context for load_codecs(): if an error ends it, the codecs have the states of its beginning."""
    before = averaging.codec_states()
    try:
        yield
    except HipressError:
        if averaging.takes_codec_states:
            averaging.load_codec_states([] if before is None else [before])
        raise


def load_codecs(states: Sequence[Mapping[str, Any]], averaging: Averaging, rank: int, world: int) -> None:
    """Gives the codecs the states in `states`: one rank's, or all old ranks'. InvalidArgument: nothing has changed.

    If the number of ranks is the same, a rank takes its own state. Otherwise the residuals of all old ranks enter the
    next average. Residuals that the codec here does not have enter it, too.
    """
    saved = [each.get("codecs") for each in states]
    if all(each is None for each in saved):
        if averaging.codec_states() is not None:
            averaging.load_codec_states([])  # nothing was held back
        return
    if not averaging.takes_codec_states:
        raise InvalidArgument(
            "the state has residuals of a codec over a process group, which this DiLoCo() would not send: give it a "
            "process group, with any codec"
        )
    found = [each for each in saved if isinstance(each, Mapping) and each.keys() >= {"rank", "world", "states"}]
    if len(found) < len(saved):
        raise InvalidArgument("some of the states lack the codec's residuals: give what state_dict() returned")
    places = [(each["rank"], each["world"]) for each in found]
    if len(found) == 1:
        if places[0] != (rank, world):
            raise InvalidArgument(
                f"the state is of rank {places[0][0]} of {places[0][1]}, and this is rank {rank} of {world}: its "
                "residuals are that rank's own; give the list of all old ranks' states, in their order"
            )
    elif places != [(place, len(found)) for place in range(len(found))]:
        raise InvalidArgument(
            f"the states are of ranks {', '.join(f'{one} of {of}' for one, of in places)}: give the states of all old "
            "ranks, in their order"
        )
    averaging.load_codec_states([found[rank]] if len(found) == world else found)
    for each in found:  # afterwards: it says less than the codecs' own errors, and unchanged_by_errors() undoes it
        check_sum({key: value for key, value in each.items() if key not in ("rank", "world")})
