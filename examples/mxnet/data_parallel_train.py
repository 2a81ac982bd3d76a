# SPDX-License-Identifier: Apache-2.0
"""HiPress' data-parallel training script for MXNet, with the command line of its first release.

    python data_parallel_train.py --numprocess 4 --servers node1:1,node2:1,node3:1,node4:1 --model vgg19 --topo PS \\
        --comp-alg tbq --comp-threshold 262144 --horovodrun --interface eth0
    python data_parallel_train.py --numprocess 2 --model resnet50 --topo Ring --comp-alg onebit
    python data_parallel_train.py --numprocess 4 --model vgg19 --topo PS --comp-alg onebit --comprplan SeCoPaPlan.txt

The program starts itself once per rank: with `horovodrun` (Horovod's launcher) if --horovodrun is given, otherwise with
`hipress run`, which gives a job on several hosts to an installed launcher. The data are random images, the same in
every step, as in the original. The program measures images per second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

#: Topologies by the original's names.
TOPOLOGIES = {"PS": "ps", "RING": "ring"}
#: Networks of mxnet.gluon.model_zoo.vision by the original's names.
MODELS = {"resnet50": "resnet50_v1", "resnet152": "resnet152_v1", "inception-v3": "inceptionv3"}
#: This variable is set for the processes that train.
_TRAINS = "DATA_PARALLEL_TRAIN_RANK"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a network on random images, on several processes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--numprocess", type=int, default=1, help="processes in all")
    parser.add_argument("--servers", default="", metavar="HOST:N,…", help="processes per host; empty: this machine")
    parser.add_argument("--model", default="vgg19", help="vgg19, resnet50, or any of MXNet's model zoo")
    parser.add_argument("--topo", default="PS", help="PS or Ring; or allgather, hierarchical")
    parser.add_argument("--comp-alg", default="none", help="codec: int8, tbq, onebit, terngrad, dgc, graddrop; none")
    parser.add_argument(
        "--comp-threshold", type=int, default=262144, metavar="FLOATS", help="smaller gradients are sent raw"
    )
    parser.add_argument(
        "--comprplan",
        default="",
        metavar="FILE",
        help="which gradients to compress, in how many partitions: lines name,size,y|n,K or JSON, as `hipress plan` "
        "writes them; in place of --comp-threshold. Or auto",
    )
    parser.add_argument("--horovodrun", action="store_true", help="start the processes with Horovod's launcher")
    parser.add_argument("--interface", default="", help="network interface that the processes use")
    parser.add_argument("--batch-size", type=int, default=16, help="images per rank and step")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-iterations", type=int, default=50, help="steps that are measured")
    parser.add_argument("--warmup-iterations", type=int, default=5, help="steps before the measured steps")
    parser.add_argument("--lr", type=float, default=0.01)
    return parser.parse_args()


def launch(arguments: argparse.Namespace) -> int:
    """Starts this script's ranks; returns the exit code of the job."""
    script = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    if arguments.horovodrun:
        hosts = ["-H", arguments.servers] if arguments.servers else []
        interface = ["--network-interface", arguments.interface] if arguments.interface else []
        command = ["horovodrun", "--gloo", "-np", str(arguments.numprocess), *hosts, *interface, *script]
    else:
        elsewhere = {server.partition(":")[0] for server in arguments.servers.split(",")} - {"", "localhost"}
        hosts = ["-H", arguments.servers] if elsewhere else []
        interface = ["--env", f"HIPRESS_INTERFACE={arguments.interface}"] if arguments.interface else []
        run = [sys.executable, "-m", "hipress.cli", "run"]
        command = [*run, "-np", str(arguments.numprocess), *hosts, *interface, "--env", f"{_TRAINS}=1", *script]
    try:
        return subprocess.call(command, env={**os.environ, _TRAINS: "1"})
    except FileNotFoundError:
        raise SystemExit("there is no horovodrun: pip install horovod, or leave out --horovodrun") from None


def train(arguments: argparse.Namespace) -> None:
    """Trains; each rank calls it."""
    import mxnet as mx
    from mxnet import autograd, gluon

    import hipress.mxnet as hp

    hp.init()
    network = gluon.model_zoo.vision.get_model(MODELS.get(arguments.model, arguments.model), classes=1000)
    network.initialize(mx.init.Xavier())
    network.hybridize(static_alloc=True, static_shape=True)
    hp.broadcast_parameters(network.collect_params(), root_rank=0)
    trainer = hp.DistributedTrainer(
        network.collect_params(),
        "sgd",
        {"learning_rate": arguments.lr, "momentum": 0.0 if arguments.comp_alg.startswith("dgc") else 0.9},
        codec=arguments.comp_alg,
        topology=TOPOLOGIES.get(arguments.topo.upper(), arguments.topo),
        min_compress_bytes=4 * arguments.comp_threshold,
        plan=arguments.comprplan or None,
    )
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    images = mx.nd.random.uniform(-1, 1, (arguments.batch_size, 3, arguments.image_size, arguments.image_size))
    labels = mx.nd.array([number % 1000 for number in range(arguments.batch_size)])
    started, sent = 0.0, 0
    for step in range(arguments.warmup_iterations + arguments.num_iterations):
        if step == arguments.warmup_iterations:
            mx.nd.waitall()
            started, sent = time.perf_counter(), hp.counters()["bytes_sent"]
        with autograd.record():
            loss = criterion(network(images), labels)
        loss.backward()
        trainer.step(arguments.batch_size)
        loss.wait_to_read()
    mx.nd.waitall()
    seconds = (time.perf_counter() - started) / arguments.num_iterations
    if hp.rank() == 0:
        megabytes = (hp.counters()["bytes_sent"] - sent) / arguments.num_iterations / 1e6
        print(
            f"{arguments.model}, {hp.size()} processes, {arguments.comp_alg}, {arguments.topo}: "
            f"{arguments.batch_size * hp.size() / seconds:.1f} images/s, {megabytes:.2f} MB sent per step and process",
            flush=True,
        )
    hp.shutdown()


def main() -> int:
    arguments = parse_arguments()
    if arguments.comprplan not in ("", "auto") and not os.path.exists(arguments.comprplan):
        raise SystemExit(f"--comprplan {arguments.comprplan}: there is no such file; `hipress plan` makes one")
    if _TRAINS in os.environ:
        train(arguments)
        return 0
    return launch(arguments)


if __name__ == "__main__":
    sys.exit(main())
