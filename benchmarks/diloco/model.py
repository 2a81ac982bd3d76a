# SPDX-License-Identifier: Apache-2.0
"""The model of diloco.py: a decoder that predicts the next byte of a text that is part of Python."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

_BYTES, _HEAD_WIDTH = 256, 32
#: The test data: bytes of a piece of the text, one test piece of this many pieces, and the number of test sequences.
_PIECE, _EVERY, _JUDGED = 4096, 10, 128


@dataclass(frozen=True)
class Text:
    """Bytes as numbers: the training data, and test sequences of shape [128, context + 1]."""

    trained: torch.Tensor
    judged: torch.Tensor

    def batch(self, sequences: int, generator: torch.Generator) -> torch.Tensor:
        """Random training sequences of shape [sequences, context + 1]."""
        length = self.judged.shape[1]
        starts = torch.randint(len(self.trained) - length, (sequences,), generator=generator)
        return torch.stack([self.trained[start : start + length] for start in starts.tolist()])


def read_text(context: int) -> Text:
    """The texts of Python's help(): about 700,000 bytes, which differ slightly between versions of Python."""
    from pydoc_data.topics import topics

    return cut("\n".join(topics[name] for name in sorted(topics)), context)


def cut(text: str, context: int) -> Text:
    """The bytes of a text, with a part of it kept back for tests."""
    pieces = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long().split(_PIECE)
    kept_back = torch.cat(pieces[::_EVERY])
    starts = range(0, len(kept_back) - context - 1, (len(kept_back) - context - 1) // _JUDGED)
    judged = torch.stack([kept_back[start : start + context + 1] for start in starts])
    return Text(torch.cat([piece for index, piece in enumerate(pieces) if index % _EVERY]), judged[:_JUDGED])


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention, self.before_layer = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attended = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        count, length, width = hidden.shape
        heads = self.attended(self.before_attention(hidden)).view(count, length, 3, -1, _HEAD_WIDTH)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.joined(attended.transpose(1, 2).reshape(count, length, width))
        result: torch.Tensor = hidden + self.down(nn.functional.gelu(self.up(self.before_layer(hidden))))
        return result


class ByteDecoder(nn.Module):
    """A transformer of `layers` blocks of `width`, a multiple of 64, that predicts the next byte."""

    def __init__(self, width: int, layers: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_BYTES, width)
        self.position = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(_Block(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[sequences, context] to [sequences, context, 256]."""
        hidden = self.embedding(tokens) + self.position
        for block in self.blocks:
            hidden = block(hidden)
        return nn.functional.linear(self.norm(hidden), self.embedding.weight)


def loss(model: nn.Module, sequences: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next byte, in nats."""
    predicted = model(sequences[:, :-1])
    return nn.functional.cross_entropy(predicted.flatten(0, 1), sequences[:, 1:].flatten())
