# SPDX-License-Identifier: Apache-2.0
"""The manifests follow the schemas of their kinds, and the image follows hadolint's rules.

The package kubeflow-trainer-api has the schemas of Kubeflow Trainer, JobSet and Kubernetes; Kubeflow generates it from
the schemas. It has no MPIJob, so `MPIJob` below describes the fields of version v2beta1.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tests.deploy.test_files import DEPLOY, documents

#: Importing the schemas takes seconds.
pytestmark = pytest.mark.slow

kubeflow = pytest.importorskip("kubeflow_trainer_api.models", reason="the schemas are installed in .venv only")


class _Strict(BaseModel):
    """A mapping that allows no other keys. Kubernetes's names of the fields are in camel case."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class RunPolicy(_Strict):
    clean_pod_policy: Literal["All", "Running", "None"] = "Running"
    ttl_seconds_after_finished: int | None = Field(None, ge=0)
    active_deadline_seconds: int | None = Field(None, ge=1)
    backoff_limit: int | None = Field(None, ge=0)
    suspend: bool = False


class ReplicaSpec(_Strict):
    replicas: int = Field(1, ge=0)
    restart_policy: Literal["Always", "OnFailure", "Never", "ExitCode"] | None = None
    template: dict[str, Any]


class MPIJobSpec(_Strict):
    """The source is pkg/apis/kubeflow/v2beta1/types.go and pkg/apis/kubeflow/validation of kubeflow/mpi-operator
    0.6."""

    slots_per_worker: int = Field(1, ge=1)
    run_policy: RunPolicy = RunPolicy()
    mpi_replica_specs: dict[Literal["Launcher", "Worker"], ReplicaSpec]
    ssh_auth_mount_path: str = "/root/.ssh"
    run_launcher_as_worker: bool = False
    launcher_creation_policy: Literal["AtStartup", "WaitForWorkersReady"] = "AtStartup"
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH"] = "OpenMPI"


def losses(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """The places of a document that its schema does not have: the generated model drops them."""
    if isinstance(given, dict):
        for key, value in given.items():
            here = f"{place}.{key}"
            if key not in read:
                yield here
            else:
                yield from losses(value, read[key], here)
    elif isinstance(given, list):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from losses(one, other, f"{place}[{number}]")
    elif given != read:
        yield f"{place}: {given!r} is read as {read!r}"


def complaints(model: Any, given: dict[str, Any]) -> list[str]:
    """The errors that a generated model finds in a document."""
    try:
        read = model.from_dict(given).to_dict()
    except ValidationError as error:
        return [str(error)]
    # The schema of this field says "integer or string"; the generator makes a model without fields from that.
    return [place for place in losses(given, read) if not place.endswith(".torch.numProcPerNode")]


def trainer_complaints(given: list[dict[str, Any]]) -> list[str]:
    runtime, job = given
    return [
        *complaints(kubeflow.TrainerV1alpha1TrainingRuntime, runtime),
        *complaints(kubeflow.TrainerV1alpha1TrainJob, job),
    ]


def mpi_complaints(given: list[dict[str, Any]]) -> list[str]:
    (job,) = given
    found = complaints(kubeflow.IoK8sApimachineryPkgApisMetaV1ObjectMeta, job["metadata"])
    try:
        spec = MPIJobSpec.model_validate(job["spec"])
    except ValidationError as error:
        return [*found, str(error)]
    for replica in spec.mpi_replica_specs.values():
        found += complaints(kubeflow.IoK8sApiCoreV1PodTemplateSpec, replica.template)
    return found


CHECKS: dict[str, Callable[[list[dict[str, Any]]], list[str]]] = {
    "kubeflow-trainer.yaml": trainer_complaints,
    "mpi-operator.yaml": mpi_complaints,
}


def mappings(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a document whose keys a schema defines."""
    if isinstance(node, dict):
        yield node
        for key, value in node.items():
            if key not in ("labels", "limits"):  # users choose the keys of these two
                yield from mappings(value)
    elif isinstance(node, list):
        for one in node:
            yield from mappings(one)


@pytest.mark.parametrize("name", CHECKS)
def test_a_manifest_has_nothing_that_its_schema_does_not_have(name: str) -> None:
    assert CHECKS[name](documents(name)) == []


@pytest.mark.parametrize("name", CHECKS)
def test_a_misspelt_key_anywhere_is_found(name: str) -> None:
    given = [one["spec"] for one in documents(name)]
    for number in range(sum(1 for _ in mappings(given))):
        wrong = documents(name)
        place = list(mappings([one["spec"] for one in wrong]))[number]
        key = next(iter(place), None)
        if key is None:
            continue
        place[f"{key}X"] = copy.deepcopy(place[key])
        assert CHECKS[name](wrong), f"{key}X passes"


@pytest.mark.parametrize("name", CHECKS)
def test_a_value_of_another_type_is_found(name: str) -> None:
    wrong = documents(name)
    containers = [place for place in mappings(wrong) if "containers" in place]
    containers[0]["containers"][0]["image"] = 7
    assert CHECKS[name](wrong)


def test_hadolint_has_nothing_against_the_image() -> None:
    command = [str(Path(sys.executable).with_name("hadolint")), "--no-color", str(DEPLOY / "Containerfile")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
