# SPDX-License-Identifier: Apache-2.0
"""The guide's recipes: each page's command runs its script, and the script shows that HiPress compressed the
gradients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import environments
from tests.docs import pages

#: The first test may have to download the environment.
pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(900)]

_LINE = re.compile(
    r"rank (\d+): loss ([\d.]+) to ([\d.]+); (\d+) bytes in (\d+) steps of (\d+) parameters; checksum (\w{8})"
)

#: Scripts for torchrun start under `hipress run` as well.
_TORCHRUN, _HIPRESS_RUN = "torchrun --nproc-per-node 2", "python -m hipress.cli run -np 2 python"


@pytest.fixture(scope="module")
def python() -> Path:
    return environments.recipes() / "bin" / "python"


def train(
    page: str, python: Path, directory: Path, *arguments: str, launcher: str = _TORCHRUN, **variables: str
) -> str:
    """Runs the page's command in `directory`, with `launcher` in the place of the page's. Returns the checksum of the
    parameters, which must be equal on both ranks.

    `arguments`: checkpoints from which the training continues; without them the loss of each rank must fall. Each rank
    must send less than a tenth of the bytes of an all-reduce in float32.
    """
    (directory / "train.py").write_text(pages.blocks(page, "python")[0])
    command = " ".join([pages.blocks(page, "bash")[0].strip().replace(_TORCHRUN, launcher), *arguments])
    printed = run(["bash", "-euc", command], python, directory, variables)
    ranks = set(_LINE.findall(printed))  # Ray prints the workers' lines twice
    assert {each[0] for each in ranks} == {"0", "1"}, printed
    for _, first, last, sent, steps, parameters, _ in ranks:
        assert arguments or float(last) < float(first), printed
        assert 0 < int(sent) < 0.1 * 4 * int(parameters) * int(steps), printed
    checksums = {each[-1] for each in ranks}
    assert len(checksums) == 1, printed
    return checksums.pop()


def run(command: list[str], python: Path, directory: Path, variables: Mapping[str, str]) -> str:
    """Runs a command in the environment of the recipes, without access to the network."""
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    own = {"PATH": path, "HOME": str(directory), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
    return pages.run(command, directory, timeout=600.0, variables=own)


def test_lightning_with_a_checkpoint(python: Path, tmp_path: Path) -> None:
    page = "docs/guide/lightning.md"
    whole = train(page, python, tmp_path)
    assert train(page, python, tmp_path, "checkpoints/epoch=1-step=32.ckpt", launcher=_HIPRESS_RUN) == whole


_IGNORED = """
import lightning, torch
from lightning.pytorch.strategies import DDPStrategy

class Strategy(DDPStrategy):
    root_device = torch.device("cpu")

def hook(state, bucket):
    raise AssertionError

strategy = Strategy(ddp_comm_hook=hook)
strategy._model = object()  # this object has no register_comm_hook()
strategy._register_ddp_hooks()
"""


def test_lightning_ignores_hooks_on_cpus_as_its_page_says(python: Path, tmp_path: Path) -> None:
    run([str(python), "-c", _IGNORED], python, tmp_path, {})


_SECOND_FIT = """
import lightning, torch
from lightning.pytorch.callbacks import LearningRateFinder
from torch.utils.data import DataLoader, TensorDataset
from train import Classifier, Compression

class Tuned(Classifier):
    lr = 0.5

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

inputs = torch.randn(256, 64)
loader = DataLoader(TensorDataset(inputs, inputs[:, :10].argmax(1)), batch_size=32)
compression = Compression(codec="onebit")
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
    callbacks=[LearningRateFinder(num_training_steps=5), compression],
)
model = Tuned()
trainer.fit(model, loader)
assert compression.state.steps > 0
steps, kept = compression.state.steps, str(compression.state.states_of_all())
seen = []
compression.on_train_start = lambda *_: seen.append((compression.state.steps, str(compression.state.states_of_all())))
trainer.callbacks.pop(0)
trainer.fit_loop.max_epochs = 2
trainer.fit(model, loader)
assert seen == [(steps, kept)], (seen[0][0], steps)
assert compression.state.steps > steps
print("went on")
"""


def test_lightning_finds_a_rate_first_and_a_second_fit_keeps_the_residuals(python: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(pages.blocks("docs/guide/lightning.md", "python")[0])
    (tmp_path / "twice.py").write_text(_SECOND_FIT)
    assert run(["torchrun", "--nproc-per-node", "2", "twice.py"], python, tmp_path, {}).count("went on") == 2


_WRAPPED = """
import sys, torch
import torch._dynamo
from accelerate import Accelerator
from hipress.torch import ddp
from lightning.fabric import Fabric

net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
if sys.argv[1] == "fabric":
    trainer = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    trainer.launch()
    model = trainer.setup(torch.compile(net, backend="eager"))
else:
    trainer = Accelerator(cpu=True, dynamo_backend="eager")
    model = trainer.prepare(net)
with torch.compiler.set_stance("force_eager"):
    state = ddp.compress(model, codec="onebit")
    trainer.backward(model(torch.randn(8, 64)).sum())
assert state.steps == 1 and state.sent_bytes > 0
names = {key.splitlines()[0] for key in state.state_dict()["states"]}
print(f"compressed {names}\\n", end="")  # one piece: the ranks write to one file
"""


@pytest.mark.parametrize("trainer", ["fabric", "accelerate"])
def test_models_that_a_trainer_compiles_and_wraps_are_found(python: Path, tmp_path: Path, trainer: str) -> None:
    (tmp_path / "wrapped.py").write_text(_WRAPPED)
    printed = run(["torchrun", "--nproc-per-node", "2", "wrapped.py", trainer], python, tmp_path, {})
    assert (
        printed.count("compressed {'0.weight', '2.weight'}") + printed.count("compressed {'2.weight', '0.weight'}") == 2
    )


@pytest.mark.parametrize("page", ["lightning", "accelerate", "hugging-face-trainer"])
def test_recipes_run_with_one_process(python: Path, tmp_path: Path, page: str) -> None:
    script = pages.blocks(f"docs/guide/{page}.md", "python")[0].replace("devices=2", "devices=1")
    (tmp_path / "train.py").write_text(script)
    printed = run(["python", "train.py"], python, tmp_path, {})
    assert page == "lightning" or "has no gradients to compress" in printed  # Lightning wraps the model all the same
    found = _LINE.findall(printed)
    assert [each[0] for each in found] == ["0"], printed
    assert float(found[0][2]) < float(found[0][1])
    assert found[0][3] == "0"


def test_accelerate(python: Path, tmp_path: Path) -> None:
    train("docs/guide/accelerate.md", python, tmp_path)


def test_trainer_with_a_checkpoint(python: Path, tmp_path: Path) -> None:
    page = "docs/guide/hugging-face-trainer.md"
    whole = train(page, python, tmp_path)
    assert train(page, python, tmp_path, "output/checkpoint-20", launcher=_HIPRESS_RUN) == whole
    shutil.rmtree(tmp_path / "output" / "checkpoint-30", ignore_errors=True)
    script = tmp_path / "train.py"
    script.write_text(script.read_text().replace("sys.argv[1] if len(sys.argv) > 1 else None", "True"))
    printed = run(["torchrun", "--nproc-per-node", "2", "train.py"], python, tmp_path, {})
    assert {each[-1] for each in _LINE.findall(printed)} == {whole}


_TRAINER_TWICE = """
import torch, transformers
from hipress.errors import InvalidArgument
from hipress.torch.integrations.transformers import Compressing
from train import GPT2Config, GPT2LMHeadModel, TensorDataset, TrainingArguments, collate

class Plain(transformers.Trainer):
    pass

class Compressed(Compressing, Plain):
    pass

def trainer(steps):
    torch.manual_seed(0)
    sizes = GPT2Config(vocab_size=50, n_positions=16, n_embd=64, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        "output", use_cpu=True, max_steps=steps, save_steps=5, per_device_train_batch_size=8, optim="sgd",
        report_to=[], disable_tqdm=True,
    )
    rows = TensorDataset((torch.randint(50, (512, 1)) + torch.arange(16)) % 50)
    options = {"codec": "onebit", "compression": {"topology": "ps"}}
    return Compressed(GPT2LMHeadModel(sizes), arguments, train_dataset=rows, data_collator=collate, **options)

def held_back(states):
    return sum(float(abs(each["residual"]).sum()) for state in states for each in state["states"].values())

"""
_TWICE = """
one = trainer(5)
one.train()
kept = held_back(one.compression.states_of_all())
assert kept > 0
one.args.max_steps = 6
begun = []

class Begun(transformers.TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        begun.append(one.compression.steps)

one.add_callback(Begun())
one.train()
assert begun[0] == 6, begun  # five steps of the first, and this one
print("went on\\n", end="")
"""
_OTHER_WORLD = """
one = trainer(6)
one.train("output/checkpoint-5")
assert one.compression.steps == 11  # five of each earlier train() before this checkpoint, and this one
print("resumed\\n", end="")
import os, torch.distributed as dist
dist.barrier()
if one.args.process_index == 0:
    os.remove("output/checkpoint-5/hipress-1.pt")
dist.barrier()
try:
    trainer(6).train("output/checkpoint-5")
except InvalidArgument as error:
    assert "hipress-1.pt' is missing" in str(error), error
    print("refused\\n", end="")
"""


def test_a_second_train_goes_on_and_other_numbers_of_ranks_resume(python: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(pages.blocks("docs/guide/hugging-face-trainer.md", "python")[0])
    for ranks, name, rest, said in (
        (2, "twice", _TWICE, ["went on"]),
        (3, "other", _OTHER_WORLD, ["resumed", "refused"]),
    ):
        (tmp_path / f"{name}.py").write_text(_TRAINER_TWICE + rest)
        printed = run(["torchrun", "--nproc-per-node", str(ranks), f"{name}.py"], python, tmp_path, {})
        assert [printed.count(each) for each in said] == [ranks] * len(said), printed


_AUTOMATIC = """
import torch
from accelerate import Accelerator
from hipress.torch.integrations.accelerate import compress

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
state = compress(accelerator, model, "auto")
for _ in range(60):
    optimizer.zero_grad()
    accelerator.backward(model(torch.randn(8, 256)).square().mean())
    optimizer.step()
print(f"chose {state.chosen}\\n", end="")
"""


def test_an_integration_finds_the_optimizer_to_choose_a_codec_for(python: Path, tmp_path: Path) -> None:
    (tmp_path / "automatic.py").write_text(_AUTOMATIC)
    printed = run(["torchrun", "--nproc-per-node", "2", "automatic.py"], python, tmp_path, {})
    assert len(re.findall(r"chose \w", printed)) == 2, printed
    assert "fp8_e4m3" in printed  # cleared for Adam and its kin, and not for every kind of optimizer


def test_the_older_name_of_lightnings_package_is_taken(python: Path, tmp_path: Path) -> None:
    script = pages.blocks("docs/guide/lightning.md", "python")[0]
    script = script.replace("import lightning\n", "import pytorch_lightning as lightning\n")
    (tmp_path / "train.py").write_text(script.replace("from lightning.pytorch.", "from pytorch_lightning."))
    printed = run(["torchrun", "--nproc-per-node", "2", "train.py"], python, tmp_path, {})
    found = _LINE.findall(printed)
    assert {each[0] for each in found} == {"0", "1"}, printed
    assert all(0 < int(each[3]) < 0.1 * 4 * int(each[5]) * int(each[4]) for each in found), printed


def test_ray_train(python: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short:  # socket names need a short path
        train("docs/guide/ray-train.md", python, tmp_path, RAY_TMPDIR=short, RAY_USAGE_STATS_ENABLED="0")


def test_torchft(python: Path, tmp_path: Path) -> None:
    train("docs/guide/torchft.md", python, tmp_path)


def test_pinned_packages_go_together(python: Path) -> None:
    command = [*environments.pip(python.parents[1]), "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
