# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found, misc"
"""A callback for PyTorch Lightning's strategy "ddp".

Lightning registers the hook that its strategy gets on GPUs only. The callback registers it on every device, in
`on_fit_start()`, which comes after Lightning has wrapped the model and before the first step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the older name of the package
    from pytorch_lightning.callbacks import Callback

from hipress.options.travel import AUTO
from hipress.torch import ddp
from hipress.torch.ddp.options import HookBesideCodec
from hipress.torch.integrations.saved_ranks import ranks_in, saved_ranks

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Compression"]


class Compression(Callback):
    """Compresses the gradients of strategy "ddp", and saves the codec states of all ranks in checkpoints.

    Each fit() goes on from the states of the one before. With one process nothing is compressed.

    Arguments: those of hipress.torch.ddp.compress() without the model. The loss scaler is the trainer's, and with codec
    "auto" so is the optimizer.
    """

    def __init__(self, codec: str | None = None, **options: Unpack[HookBesideCodec]) -> None:
        self._codec, self._options = codec, options
        #: Of the last fit(); None before the first one.
        self.state: ddp.HookState | None = None
        self._saved: list[Any] = []

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Compresses the model that Lightning has wrapped. Raises the errors of compress()."""
        if self.state is not None:  # each fit() wraps the model anew
            self._saved = self.state.states_of_all()
            self.state.close()
        given: dict[str, Any] = dict(self._options)
        given.setdefault("scaler", getattr(trainer.precision_plugin, "scaler", None))  # of precision="16-mixed"
        if self._codec == AUTO and len(trainer.optimizers) == 1:
            given.setdefault("optimizer", trainer.optimizers[0])
        self.state = ddp.compress(trainer.strategy.model, self._codec, **given)
        if self._saved:
            self.state.load_states_of(self._saved)

    def state_dict(self) -> dict[str, Any]:
        """Lightning calls it on all ranks, and saves what rank 0 returns."""
        return saved_ranks(self._saved if self.state is None else self.state.states_of_all())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning calls it before on_fit_start(), or in a later fit(). Raises InvalidArgument."""
        self._saved = ranks_in(state_dict)
        if self.state is not None and self._saved:
            self.state.load_states_of(self._saved)
