# SPDX-License-Identifier: Apache-2.0
"""The model of optimizers.py: a transformer that predicts the next character of an installed text."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution

import torch
from torch import nn

#: Length of a sequence; the model predicts the next character of each position.
CONTEXT = 64
_WIDTH, _LAYERS, _HEADS = 200, 2, 4
#: Number of test sequences, characters of a piece, and pieces per test piece. Test pieces are not in the training data.
_JUDGED, _PIECE, _EVERY = 64, 4096, 10


@dataclass(frozen=True)
class Text:
    """Characters as numbers: the training data, and test sequences of shape [judged, CONTEXT + 1]."""

    trained: torch.Tensor
    judged: torch.Tensor
    characters: int

    def batch(self, sequences: int, generator: torch.Generator) -> torch.Tensor:
        """Random training sequences of shape [sequences, CONTEXT + 1]."""
        starts = torch.randint(len(self.trained) - CONTEXT, (sequences,), generator=generator)
        return torch.stack([self.trained[start : start + CONTEXT + 1] for start in starts.tolist()])


def _help() -> str:
    """The texts of Python's help(): about 700,000 characters, which differ slightly between versions of Python."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def _licences() -> str:
    """The different licence texts of PyTorch's package: about 190,000 characters, which differ between its versions."""
    files = (file for file in distribution("torch").files or () if "licenses" in file.parts)
    return "\n".join(sorted({file.locate().read_text(errors="replace") for file in files}))  # type: ignore[attr-defined]


#: Texts by the name on the command line.
TEXTS = {"help": _help, "licences": _licences}


def read_text(name: str, judged: int = _JUDGED) -> Text:
    """A text of TEXTS. `judged`: number of test sequences."""
    text = TEXTS[name]()
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    encoded = torch.tensor([numbers[character] for character in text])
    pieces = encoded.split(_PIECE)
    kept_back = torch.cat(pieces[::_EVERY])
    starts = range(0, len(kept_back) - CONTEXT, len(kept_back) // judged)
    tested = torch.stack([kept_back[start : start + CONTEXT + 1] for start in starts])
    seen = torch.cat([piece for index, piece in enumerate(pieces) if index % _EVERY])
    return Text(seen, tested[:judged], len(numbers))


class CharacterModel(nn.Module):
    """A transformer with about a million parameters."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, _WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, _WIDTH))
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 4 * _WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, _LAYERS, nn.LayerNorm(_WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(_WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)
        # The encoder's layers are copies of one layer, so each layer gets new initial weights here.
        for parameter in self.layers.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """[sequences, CONTEXT] to [sequences, CONTEXT, characters]."""
        hidden = self.layers(self.embedding(characters) + self.position, mask=self.mask, is_causal=True)
        result: torch.Tensor = self.head(hidden)
        return result


def loss(model: nn.Module, sequences: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next character, in nats."""
    predicted = model(sequences[:, :-1])
    return nn.functional.cross_entropy(predicted.flatten(0, 1), sequences[:, 1:].flatten())
