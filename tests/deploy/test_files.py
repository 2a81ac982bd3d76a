# SPDX-License-Identifier: Apache-2.0
"""The image, the manifests and the batch script have the right contents. The tests only read them: a builder and a
cluster are missing here."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from hipress.options.runtime import RUNTIME_OPTIONS
from tests.docs import pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

DEPLOY = pages.ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
PAGE = (pages.ROOT / "docs" / "guide" / "containers.md").read_text()
PROJECT = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def pod_specs(node: Any) -> list[Any]:
    """Every mapping that has the key "containers"."""
    if isinstance(node, dict):
        return ([node] if "containers" in node else []) + [spec for one in node.values() for spec in pod_specs(one)]
    return [spec for one in node for spec in pod_specs(one)] if isinstance(node, list) else []


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in CONTAINERFILE.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines()]


def test_the_image_is_made_of_known_instructions_and_ends_as_another_user_than_root() -> None:
    assert {name for name, _ in instructions()} <= {"ARG", "FROM", "COPY", "RUN", "WORKDIR", "USER"}
    stages = [words.split(" AS ")[-1] for name, words in instructions() if name == "FROM"]
    assert stages[:2] == ["framework", "mpi"]
    bases = [words.split()[0] for name, words in instructions() if name == "FROM"]
    # Each base image names a tag, so a later build uses the same base.
    assert all(":" in base or base in stages for base in bases)
    assert [words for name, words in instructions() if name == "USER"] == ["1000", "1000"]
    assert "--uid 1000 trainer" in CONTAINERFILE
    for _, words in (one for one in instructions() if one[0] == "RUN"):
        done = subprocess.run(["bash", "-nc", words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_frameworks_of_the_image_are_extras_of_the_package() -> None:
    (row,) = re.findall(r"^\| `FRAMEWORK` \| (.*) \|$", PAGE, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", row))
    assert named == {"torch", "tensorflow", "mxnet"}
    assert named <= set(PROJECT["optional-dependencies"])
    assert "[${FRAMEWORK}]" in CONTAINERFILE
    assert "COPY build/dist/hipress-*.whl" in CONTAINERFILE


def test_the_manifest_for_the_trainer_has_what_trainer_requires() -> None:
    runtime, job = documents("kubeflow-trainer.yaml")
    for one in (runtime, job):
        assert one["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
        assert one["metadata"]["name"]
    assert (runtime["kind"], job["kind"]) == ("TrainingRuntime", "TrainJob")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["spec"]["runtimeRef"]["kind"] == runtime["kind"]
    assert job["spec"]["trainer"]["numNodes"] == runtime["spec"]["mlPolicy"]["numNodes"]
    assert "torch" in runtime["spec"]["mlPolicy"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    # Trainer uses these names to find the container whose command and image it replaces.
    assert replicated["name"] == "node"
    assert replicated["template"]["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    assert [one["name"] for one in pod_specs(replicated)[0]["containers"]] == ["node"]
    assert job["spec"]["trainer"]["command"][0] == "torchrun"


def test_the_manifest_for_the_mpi_operator_has_what_the_operator_requires() -> None:
    (job,) = documents("mpi-operator.yaml")
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"}
    assert replicas["Launcher"]["replicas"] == 1
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
    ranks = int(launcher["command"][launcher["command"].index("-n") + 1])
    assert ranks == job["spec"]["slotsPerWorker"] * replicas["Worker"]["replicas"]
    (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
    # The worker starts the image's sshd with the keys that the operator mounts.
    assert worker["command"][-1] in CONTAINERFILE
    assert f"Port {worker['readinessProbe']['tcpSocket']['port']}" in CONTAINERFILE
    assert job["spec"]["sshAuthMountPath"] in CONTAINERFILE
    assert worker["securityContext"]["runAsUser"] == 1000


@pytest.mark.parametrize("name", ["kubeflow-trainer.yaml", "mpi-operator.yaml"])
def test_ranks_of_a_pod_have_shared_memory_and_a_secret(name: str) -> None:
    specs = [spec for document in documents(name) for spec in pod_specs(document)]
    mounts = {
        mount["mountPath"] for spec in specs for one in spec["containers"] for mount in one.get("volumeMounts", ())
    }
    volumes = [volume for spec in specs for volume in spec.get("volumes", ())]
    assert mounts == {"/dev/shm"}
    assert all(volume["emptyDir"]["medium"] == "Memory" for volume in volumes)
    secrets = {
        variable["valueFrom"]["secretKeyRef"]["name"]
        for spec in specs
        for one in spec["containers"]
        for variable in one.get("env", ())
    }
    assert secrets == {"hipress-job"}
    assert "kubectl create secret generic hipress-job --from-literal=token=" in PAGE


def test_the_batch_script_is_a_script_of_slurm() -> None:
    file = DEPLOY / "train.sbatch"
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", file.read_text(), re.MULTILINE))
    assert {"nodes", "ntasks-per-node", "time"} <= set(directives)
    # Slurm stops reading directives at the first command.
    assert file.read_text().rindex("#SBATCH") < file.read_text().index("set -euo")
    assert re.search(r"^srun python ", file.read_text(), re.MULTILINE)


def test_the_variables_that_they_set_exist() -> None:
    known = {option.variable for option in RUNTIME_OPTIONS.values()} | {"HIPRESS_JOB_TOKEN"}
    for file in DEPLOY.iterdir():
        assert set(re.findall(r"\bHIPRESS_[A-Z_]+\b", file.read_text())) <= known, file.name


def test_the_page_names_every_file() -> None:
    for file in DEPLOY.iterdir():
        assert f"(../../deploy/{file.name})" in PAGE
