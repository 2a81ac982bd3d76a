# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found, misc"
"""Hugging Face's Trainer with compressed gradients.

Trainer wraps the model in DistributedDataParallel when train() begins, and has no argument for a communication hook.
The first training_step() gets the wrapped model, also with TrainingArguments(torch_compile=True).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from hipress.errors import InvalidArgument
from hipress.log import logger
from hipress.options.travel import AUTO
from hipress.torch import ddp
from hipress.torch.states.place import PLACE

__all__ = ["CompressedTrainer", "Compressing"]


class Compressing:
    """Makes a compressing trainer of any subclass of Trainer: `class MyTrainer(Compressing, SFTTrainer)`.

    Each checkpoint gets a file of each rank with what codecs keep, and a training that resumes from it goes on with
    these. The number of ranks may be another one if all files are there. A second train() goes on from the states of
    the first. With one process nothing is compressed. Arguments that are not below are the trainer's.

    Arguments:
        codec: as of hipress.torch.ddp.compress().
        compression: its other options, by name. The loss scaler is the trainer's, and with codec "auto" so is the
            optimizer.
    """

    def __init__(self, *args: Any, codec: str, compression: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._codec, self._options = codec, dict(compression or {})
        #: Of the last train(); None before its first step.
        self.compression: ddp.HookState | None = None
        self._compressed: Any = lambda: None  # a weak reference to the wrapped model
        self._resumed: Path | None = None
        self.add_callback(_SavesStates(self))  # type: ignore[attr-defined]

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """See Trainer."""
        resumed = resume_from_checkpoint
        if resumed is True:
            resumed = get_last_checkpoint(self.args.output_dir)  # type: ignore[attr-defined]
        self._resumed = Path(resumed) if resumed else None
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def training_step(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.Tensor:
        """See Trainer. Raises the errors of hipress.torch.ddp.compress() in the first step."""
        if self._compressed() is not model:
            self._compress(model)
        if self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            self._load(resumed)
        loss: torch.Tensor = super().training_step(model, *args, **kwargs)
        return loss

    def _compress(self, model: torch.nn.Module) -> None:
        before = None
        if self.compression is not None:  # a later train() may wrap the model anew
            before = self.compression.states_of_all()
            self.compression.close()
        given = dict(self._options)
        given.setdefault("scaler", self.accelerator.scaler)  # type: ignore[attr-defined] # None without fp16
        if self._codec == AUTO:
            optimizer = self.optimizer  # type: ignore[attr-defined]
            given.setdefault("optimizer", getattr(optimizer, "optimizer", optimizer))
        self.compression = ddp.compress(model, self._codec, **given)
        self._compressed = weakref.ref(model)
        if before is not None:
            self.compression.load_states_of(before)

    def _load(self, checkpoint: Path) -> None:
        assert self.compression is not None
        arguments = self.args  # type: ignore[attr-defined]
        files = list(checkpoint.glob(_name("*")))
        if not files:
            logger().warning("the checkpoint '%s' has no codec states: they begin with zeros", checkpoint)
            return
        saved = int(torch.load(files[0])[PLACE][1])
        own = [arguments.process_index] if saved == arguments.world_size else range(saved)
        wanted = [checkpoint / _name(rank) for rank in own]
        missing = next((file for file in wanted if not file.exists()), None)
        if missing is not None:
            raise InvalidArgument(
                f"the checkpoint has codec states of {saved} ranks, and the file '{missing}' is missing on this host"
            )
        states = [torch.load(file) for file in wanted]
        if saved == arguments.world_size:
            self.compression.load_state_dict(states[0])
        else:
            self.compression.load_states_of(states)

    def save_states(self, checkpoint: Path) -> None:
        """Writes this rank's codec states into the folder of a checkpoint."""
        if self.compression is not None:
            checkpoint.mkdir(parents=True, exist_ok=True)  # on hosts on which Trainer has written nothing
            torch.save(self.compression.state_dict(), checkpoint / _name(self.args.process_index))  # type: ignore[attr-defined]


class CompressedTrainer(Compressing, Trainer):
    """See Compressing."""


class _SavesStates(TrainerCallback):
    def __init__(self, trainer: Compressing) -> None:
        self._trainer = weakref.ref(trainer)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        trainer = self._trainer()
        if trainer is not None:
            trainer.save_states(Path(args.output_dir, f"checkpoint-{state.global_step}"))


def _name(rank: int | str) -> str:
    return f"hipress-{rank}.pt"
