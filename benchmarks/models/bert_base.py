# SPDX-License-Identifier: Apache-2.0
"""BERT-base, uncased (Devlin et al.), with the names of Hugging Face's BertModel. It has the pooler and no head. Query,
key and value are three layers, so it has 199 tensors."""

from __future__ import annotations

import torch
from torch import nn

_WIDTH = 768
_HEADS = 12
_TOKENS = 128
_VOCABULARY = 30522


class _Dense(nn.Module):
    """A layer whose output is added to the block's input and normalised."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, _WIDTH)
        self.LayerNorm = nn.LayerNorm(_WIDTH, eps=1e-12)

    def forward(self, values: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.LayerNorm(self.dense(values) + before)
        return result


class _SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.key = nn.Linear(_WIDTH, _WIDTH)
        self.value = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = values.shape
        heads = (
            layer(values).view(batch, tokens, _HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(values.shape)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # The modules' names give the parameters' names, such as attention.self.query and attention.output.dense.
        self.attention = nn.ModuleDict({"self": _SelfAttention(), "output": _Dense(_WIDTH)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(_WIDTH, 4 * _WIDTH)})
        self.output = _Dense(4 * _WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = self.attention["output"](self.attention["self"](values), values)
        result: torch.Tensor = self.output(nn.functional.gelu(self.intermediate["dense"](values)), values)
        return result


class _Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(_VOCABULARY, _WIDTH, padding_idx=0)
        self.position_embeddings = nn.Embedding(512, _WIDTH)
        self.token_type_embeddings = nn.Embedding(2, _WIDTH)
        self.LayerNorm = nn.LayerNorm(_WIDTH, eps=1e-12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = self.position_embeddings(torch.arange(tokens.shape[1]))
        types = self.token_type_embeddings(torch.zeros_like(tokens))
        result: torch.Tensor = self.LayerNorm(self.word_embeddings(tokens) + types + positions)
        return result


class BertBase(nn.Module):
    """The model. Its input is token numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = _Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*(_Layer() for _ in range(12)))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(_WIDTH, _WIDTH)})

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The pooled state of the first token."""
        values = self.encoder["layer"](self.embeddings(tokens))
        result: torch.Tensor = torch.tanh(self.pooler["dense"](values[:, 0]))
        return result


def loss(model: nn.Module, batch: int) -> torch.Tensor:
    """The loss of random sentences of 128 tokens."""
    result: torch.Tensor = model(torch.randint(_VOCABULARY, (batch, _TOKENS))).square().mean()
    return result
