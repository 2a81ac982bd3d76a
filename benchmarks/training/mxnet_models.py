# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 in Gluon, with the same layers and 161 parameters as in models.py."""

from __future__ import annotations

from typing import Any

from mxnet.gluon import nn


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Conv2D:
    return nn.Conv2D(outputs, kernel, stride, padding, in_channels=inputs, use_bias=False)


class Bottleneck(nn.HybridBlock):  # type: ignore[misc]
    """1×1, 3×3 and 1×1 convolutions around a shortcut (He et al., 2015), the stride at the 3×3 as in torchvision."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        with self.name_scope():
            self.inner = nn.HybridSequential()
            self.inner.add(_convolution(inputs, width, 1), nn.BatchNorm(in_channels=width), nn.Activation("relu"))
            self.inner.add(_convolution(width, width, 3, stride, 1), nn.BatchNorm(in_channels=width))
            self.inner.add(nn.Activation("relu"), _convolution(width, outputs, 1), nn.BatchNorm(in_channels=outputs))
            self.shortcut = nn.HybridSequential()
            if inputs != outputs:
                self.shortcut.add(_convolution(inputs, outputs, 1, stride), nn.BatchNorm(in_channels=outputs))

    def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803 -- MXNet's name
        """Maps [N, C, H, W] to [N, 4·width, H/stride, W/stride]."""
        return F.Activation(self.inner(images) + self.shortcut(images), act_type="relu")


def resnet50(classes: int) -> nn.HybridBlock:
    """ResNet-50, with 25,557,032 parameters in 161 arrays for 1000 classes."""
    network = nn.HybridSequential()
    network.add(_convolution(3, 64, 7, 2, 3), nn.BatchNorm(in_channels=64), nn.Activation("relu"))
    network.add(nn.MaxPool2D(3, 2, 1))
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            network.add(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    network.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(classes, in_units=inputs))
    return network
