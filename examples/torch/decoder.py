# SPDX-License-Identifier: Apache-2.0
"""A decoder of nanoGPT's size that predicts the next character, synchronised in each of HiPress' ways.

    torchrun --nproc-per-node 2 decoder.py --ways optimizer ddp fsdp diloco --codec int8

10.7 million parameters with the default sizes. The text is Python's own help, 700 kB that need no download.
"""

from __future__ import annotations

import argparse
import time
from pydoc_data.topics import topics

import torch
from devices import add_device
from torch import Tensor, nn
from torch.nn import functional
from ways_in import WAYS, synchronised

import hipress.torch as hp


class Block(nn.Module):
    """Attention to the earlier characters, then two layers for each character."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, values: Tensor) -> Tensor:
        batch, length, width = values.shape
        parts = self.attend(self.before_attention(values)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        values = values + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        result: Tensor = values + self.layers(self.before_layers(values))
        return result


class Decoder(nn.Module):
    """The model. It maps characters to scores of the next character."""

    def __init__(self, characters: int, length: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last = nn.LayerNorm(width)
        self.scores = nn.Linear(width, characters, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        values = self.characters(text) + self.places(torch.arange(text.shape[1], device=text.device))
        result: Tensor = self.scores(self.last(self.blocks(values)))
        return result


def read_text() -> tuple[Tensor, int]:
    """The text as numbers, and the number of different characters."""
    text = "".join(topics[name] for name in sorted(topics))
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[character] for character in text]), len(numbers)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["optimizer"], help="one training for each")
    parser.add_argument("--codec", default="int8")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8, help="sequences of each rank")
    parser.add_argument("--length", type=int, default=256, help="characters of a sequence")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384, help="a multiple of 6, the number of heads")
    add_device(parser)
    return parser.parse_args()


def train(way: str, text: Tensor, characters: int, arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    model = Decoder(characters, arguments.length, arguments.layers, heads=6, width=arguments.width)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with synchronised(way, model, lambda one: torch.optim.AdamW(one.parameters(), lr=1e-3), arguments) as training:
        torch.set_num_threads(max(1, torch.get_num_threads() // hp.local_size()))
        random = torch.Generator().manual_seed(hp.rank())  # every rank reads other places of the text
        sent, started = training.sent_bytes(), time.perf_counter()
        for _ in range(arguments.steps):
            starts = torch.randint(len(text) - arguments.length - 1, (arguments.batch, 1), generator=random)
            sequences = text[starts + torch.arange(arguments.length + 1)].to(training.device)
            training.optimizer.zero_grad()
            scores = training.model(sequences[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1), sequences[:, 1:].flatten())
            loss.backward()
            training.optimizer.step()
        seconds = (time.perf_counter() - started) / arguments.steps
        megabytes = (training.sent_bytes() - sent) / arguments.steps / 1e6
        mean = hp.allreduce(loss.detach(), name="loss").item()
        if hp.rank() == 0:
            print(
                f"{way}, {arguments.codec}: {parameters:,} parameters, loss {mean:.2f} after {arguments.steps} steps, "
                f"{seconds * 1e3:.0f} ms and {megabytes:.2f} MB sent per step",
                flush=True,
            )


def main() -> None:
    arguments = parse_arguments()
    text, characters = read_text()
    for way in arguments.ways:
        train(way, text, characters, arguments)


if __name__ == "__main__":
    main()
