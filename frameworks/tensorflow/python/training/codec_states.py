# SPDX-License-Identifier: Apache-2.0
"""What codecs remember, in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.tensorflow.failures import with_own_errors
from hipress.tensorflow.training.distributed_optimizer import DistributedTensorflowOptimizer
from hipress.tensorflow.training.synchronizer import GradientSynchronizer
from hipress.tensorflow.training.tape import DistributedTape


@with_own_errors
def codec_states(
    optimizer: Any, *, exact: bool = False, variables: Iterable[Any] | None = None
) -> dict[str, NDArray[Any]]:
    """What codecs remember of the gradients, as float32 arrays by name, beside small arrays that say of what.

    By default the mean over all ranks: **every rank calls it**, between the same steps and outside of tf.function, and
    all get the same. It serves any number of ranks, any codec and topology, so rank 0 saves it:

        states = hp.codec_states(optimizer)          # on every rank
        if hp.rank() == 0:
            model.save("model.keras")
            numpy.savez("codecs.npz", **states)

    With `exact=True` it is what this rank alone remembers. No other rank is asked, and every rank saves its own. With
    as many ranks, and the same codecs and plan, training goes on to the bit as if it had not ended.

    Arguments:
        optimizer: of DistributedOptimizer(), or a tape of DistributedGradientTape().
        exact: see above.
        variables: `model.trainable_variables`, if the optimizer is not built and has seen no gradients, or has seen
            those of several lists of variables. Variables are known by the names of their layers: give
            the layers of a model that is not the first one of its process names of their own.

    Raises InvalidArgument within a step; Mismatch if another rank has refused, or has done another number of steps;
    Timeout if a rank does not call it; NotInitialized.
    """
    tensors = _list_of(optimizer, variables, "codec_states")
    return adapter.own_states(tensors) if exact else adapter.mean_states(tensors)


@with_own_errors
def load_codec_states(
    optimizer: Any,
    states: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    variables: Iterable[Any] | None = None,
) -> None:
    """Goes on from what codec_states() returned, in place of what codecs remember now. **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    goes on only where a rank encodes an element in the same role.

    Arguments:
        optimizer, variables: as of codec_states().
        states: the mean; or, with exact=True, this rank's own, on as many ranks; or the list of all ranks' own, in
            their order, on any number of ranks. Also an open file of numpy.load().

    Raises InvalidArgument within a step and, with the first difference, for states of other variables or damaged ones;
    Mismatch on the other ranks then, and if ranks load states after different steps; Timeout if a rank does not call
    it. Nothing is changed then.
    """
    adapter.load_states(_list_of(optimizer, variables, "load_codec_states"), states, np.asarray)


def _list_of(optimizer: Any, variables: Iterable[Any] | None, doing: str) -> GradientSynchronizer:
    if not isinstance(optimizer, DistributedTensorflowOptimizer | DistributedTape):
        raise InvalidArgument(
            f"{doing}() takes an optimizer of DistributedOptimizer() or a tape of DistributedGradientTape(), not a "
            f"{type(optimizer).__name__}"
        )
    if variables is None and getattr(optimizer, "built", False):
        variables = getattr(optimizer, "_trainable_variables", None)
    shared = None if variables is None else optimizer._hipress_local.without(list(variables))
    return optimizer._hipress_lists.list_of(shared, doing)
