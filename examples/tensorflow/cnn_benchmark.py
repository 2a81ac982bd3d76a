# SPDX-License-Identifier: Apache-2.0
"""HiPress' benchmark of convolutional networks with TensorFlow, with the command line of its first release.

    hipress run -np 2 python cnn_benchmark.py --model vgg19 --batch_size 16 --variable_update hipress --comp_alg dgc
    horovodrun -np 2 -H node1:1,node2:1 python cnn_benchmark.py --model resnet50 --comp_alg tbq

The data are random images, the same in every step, as in the original. The program measures images per second.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hipress.tensorflow as hp

#: Networks of keras.applications by the original's names. Other networks keep their names.
MODELS = {
    "vgg16": "VGG16",
    "vgg19": "VGG19",
    "resnet50": "ResNet50",
    "resnet152": "ResNet152",
    "inception3": "InceptionV3",
}
#: The original ran with `horovod`, because its operators replaced Horovod's.
VARIABLE_UPDATES = ("hipress", "horovod", "independent")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a network on random images.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", default="vgg19", help=f"{', '.join(MODELS)}, or any of keras.applications")
    parser.add_argument("--batch_size", type=int, default=16, help="images per rank and step")
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument(
        "--variable_update",
        choices=VARIABLE_UPDATES,
        default="hipress",
        help="hipress, or horovod as in the original: gradients are synchronised; independent: they are not",
    )
    parser.add_argument("--comp_alg", default="none", help="codec: int8, tbq, onebit, terngrad, dgc, graddrop; none")
    parser.add_argument(
        "--comp_threshold", type=int, default=262144, metavar="BYTES", help="smaller gradients are sent raw"
    )
    parser.add_argument("--topology", default="ps", help="ps, ring, allgather or hierarchical")
    parser.add_argument("--num_batches", type=int, default=50, help="steps that are measured")
    parser.add_argument("--num_warmup_batches", type=int, default=5, help="steps before the measured steps")
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument(
        "--num_threads", type=int, default=0, help="TensorFlow's threads for one operator; 0: all cores"
    )
    return parser.parse_args()


def build_model(name: str, image_size: int) -> Any:
    builder = getattr(keras.applications, MODELS.get(name, name), None)
    if builder is None:
        raise SystemExit(f"--model {name}: choose {', '.join(MODELS)}, or a name of keras.applications")
    return builder(weights=None, classes=1000, input_shape=(image_size, image_size, 3), classifier_activation=None)


def main() -> None:
    arguments = parse_arguments()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.num_threads)
    hp.init()
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[hp.local_rank() % len(gpus)], "GPU")
    keras.utils.set_random_seed(0)
    model = build_model(arguments.model, arguments.image_size)
    optimizer = keras.optimizers.SGD(arguments.learning_rate)
    if arguments.variable_update != "independent":
        optimizer = hp.DistributedOptimizer(
            optimizer,
            codec=arguments.comp_alg,
            topology=arguments.topology,
            min_compress_bytes=arguments.comp_threshold,
        )
    optimizer.build(model.trainable_variables)
    hp.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    generator = np.random.default_rng(hp.rank())
    shape = (arguments.batch_size, arguments.image_size, arguments.image_size, 3)
    images = tf.constant(generator.standard_normal(shape, np.float32))
    labels = tf.constant(generator.integers(0, 1000, arguments.batch_size))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = criterion(labels, model(images, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    loss = float("nan")
    for _ in range(arguments.num_warmup_batches):
        loss = float(step())
    sent = hp.counters()["bytes_sent"]
    started = time.perf_counter()
    for number in range(arguments.num_batches):
        loss = float(step())
        if hp.rank() == 0 and (number + 1) % 10 == 0:
            speed = (number + 1) * arguments.batch_size / (time.perf_counter() - started)
            print(f"{number + 1:5}  images/sec: {speed:.1f}  loss: {loss:.3f}", flush=True)
    speed = arguments.num_batches * arguments.batch_size / (time.perf_counter() - started)
    total = hp.allreduce(np.array([speed]), op=hp.Sum, name="images per second").numpy()[0]
    sent = (hp.counters()["bytes_sent"] - sent) / max(1, arguments.num_batches)
    if hp.rank() == 0:
        print(f"total images/sec: {total:.2f} on {hp.size()} processes, {sent / 1e6:.2f} MB sent per step and process")
    hp.shutdown()


if __name__ == "__main__":
    main()
