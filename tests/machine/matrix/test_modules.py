# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every module runs with each ansible-core, under each Python that a node may have."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvsim.testing import start

from tests.environments.needed import made
from tests.machine.matrix.conftest import OLDEST
from tests.machine.matrix.run import HARDENED, HERE, Answers, run_modules
from tests.support.paths import REPOSITORY

Answer = dict[str, Any]
NO_CLUSTER = ("drain", "validate_pods", "cluster_objects")  # they run on the controller
NO_DRIVER = "no driver is loaded that has a GPU"  # which no simulation hides
NO_GPUS = ("gpu_reset", "accept")  # without that driver
NO_DIGEST = "evidence of node: the file has the SHA-256"
NO_NETWORK = "see that the node reaches the address"
NO_TARBALL = "build its tarball with 'ansible-galaxy collection build'"  # of a clone


def said(answer: Answer) -> str:
    return " ".join(step["summary"] for step in answer["steps"])


def sees_gpus(answer: Answer) -> bool:
    info = answer["gpu_info"]
    return info["nvml_available"] and [one["index"] for one in info["gpus"]] == [0, 1]


def checks_fail(answer: Answer) -> bool:
    """Return whether the kernel of this machine was found to have no driver, which no simulation hides."""
    return any(not one["holds"] and one["cause"] for one in answer["checks"])


# What tells that a module did its work, rather than that it could be read.
WORKED: dict[str, Callable[[Answer], bool]] = {
    "gpu_info": sees_gpus,
    "mig": lambda answer: answer["changed"] and "GPU 1: create 3g.20gb" in said(answer),
    "mig again": lambda answer: not answer["changed"],
    "cdi": lambda answer: answer["changed"] and "1:0" in answer["devices"],
    "cdi again": lambda answer: not answer["changed"],
    "preflight": lambda answer: "gpu_info" in answer,
    "plan": sees_gpus,
    "validate": checks_fail,
    "nvidia_driver": lambda answer: "firmware-nvidia-gsp" in said(answer),
    "container_runtime": lambda answer: answer["runtimes"][0]["name"] == "podman",
    "container_toolkit": lambda answer: (
        "libnvidia-container" in said(answer) or NO_NETWORK in answer["hint"]
    ),
    "pin_options": lambda answer: answer["options"]["inventory_hostname"] == "node",
    "gpu_evidence": lambda answer: "with the kernel's log since" in said(answer),
    "dcgm": lambda answer: "nvidia-dcgm.service" in said(answer),
    "repair": lambda answer: (answer["next"], answer["gpus"]) == ("nothing", []),
    "quarantine": lambda answer: "set aside GPU 1 (GPU-" in said(answer),
    "host": lambda answer: answer["steps"] == [] and answer["iommu"]["wanted"] == "",
    "settings": lambda answer: "persistence from off to on" in said(answer),
    "device_plugin": lambda answer: "write /etc/gpu-node/config.yaml" in said(answer),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_every_module_runs(core: str, python: str, tmp_path: Path) -> None:
    environments = made(core), made("target", python)
    with start("a100-40", 2) as sim:
        answers = run_modules(tmp_path, sim, *environments)
    check_answers(answers, python)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_every_module_runs_from_a_hardened_login(tmp_path: Path) -> None:
    core, python = OLDEST
    environments = made(core), made("target", python)
    with start("a100-40", 2) as sim:
        answers = run_modules(tmp_path, sim, *environments, login=HARDENED)
    check_answers(answers, python)


def check_answers(answers: Answers, python: str) -> None:
    """Fail unless each module did its work, or refused what it can't do here."""
    for module, worked in WORKED.items():
        answer = answers.of.get(module)
        assert answer is not None, answers.output
        assert not answer.get("failed"), (module, answer["msg"])
        assert worked(answer), (module, answer)
    for module in NO_CLUSTER:
        told = answers.of[module]["msg"]
        assert f"{module}: the Python library kubernetes can't be imported" in told
        assert f"target-python{python}/bin/python -m pip install kubernetes" in told
    for module in NO_GPUS:
        assert NO_DRIVER in answers.of[module]["msg"]
    assert NO_DIGEST in answers.of["fetch_evidence"]["msg"]
    assert NO_TARBALL in answers.of["bundle"]["msg"]
    assert "DEPRECATION" not in answers.output
    assert "FAILED" not in without_the_expected(answers)


def without_the_expected(answers: Answers) -> str:
    """Return the output without what the modules say that can do nothing here."""
    lines = answers.output.splitlines()
    expected = ("Python library kubernetes", NO_DRIVER, NO_NETWORK, NO_TARBALL, NO_DIGEST)
    return "\n".join(line for line in lines if not any(one in line for one in expected))


def test_no_module_is_left_out() -> None:
    (play,) = yaml.safe_load((HERE / "modules.yml").read_text())
    ran = {word for task in play["tasks"] for word in task if word.startswith("gpu.node.")}
    modules = {f"gpu.node.{one.stem}" for one in (REPOSITORY / "plugins/modules").glob("*.py")}
    assert ran == modules
    named = {task["name"].removeprefix("Run ") for task in play["tasks"]}
    assert named == {*WORKED, *NO_CLUSTER, *NO_GPUS, "bundle", "fetch_evidence"}


def test_the_tests_themselves_run_one_of_the_cores() -> None:
    """The core of development is a cell too, so what passes in other lanes was with a core of the matrix."""
    import ansible.release

    listed = (REPOSITORY / "tests/environments/core-2.19.txt").read_text()
    assert f"ansible-core=={ansible.release.__version__} " in listed
    assert sys.version_info >= (3, 11)
