# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's role, run by ansible-playbook of each supported ansible-core, on a played machine of each family."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.environments.environment import CORES
from tests.environments.needed import made
from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played import apt_machine
from tests.fakes.played.debian import debian_archive
from tests.fakes.played.rhel import played_rhel
from tests.fakes.played.rooted import Rooted
from tests.fakes.played.suse import played_suse, suse_archive
from tests.fakes.played.ubuntu import ubuntu_archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines as UbuntuMachines
from tests.fakes.played.ubuntu.played_ubuntu import Ubuntu
from tests.support.paths import REPOSITORY

KERNEL = debian_archive.KERNELS["trixie"]


class Family(NamedTuple):
    """The programs that a family's machine needs, what makes it, and the variables of the play."""

    tools: tuple[str, ...]
    machine: Callable[[Path], Rooted]
    variables: dict[str, str] = {}


def debian(place: Path) -> Rooted:
    packages = debian_archive.archive(KERNEL, "550.163.01")
    return debian_archive.Machines(place, "trixie")(packages, KERNEL)


def ubuntu(place: Path) -> Rooted:
    return UbuntuMachines(Ubuntu, place, "noble")(ubuntu_archive.A, ubuntu_archive.K85)


def rhel(place: Path) -> Rooted:
    return played_rhel.Machines(place)()


def suse(place: Path) -> Rooted:
    return played_suse.Machines(place)(suse_archive.fresh())


FAMILIES = {
    # By itself the role would turn to NVIDIA's repository, as NVIDIA supports branch 550 no more.
    "debian": Family(apt_machine.TOOLS, debian, {"nvidia_driver_source": "distribution"}),
    "ubuntu": Family(apt_machine.TOOLS, ubuntu),
    "rhel": Family(played_rhel.TOOLS, rhel),
    "suse": Family(played_suse.TOOLS, suse),
}
ROLE = [
    {
        "name": "The driver alone",
        "hosts": "all",
        "gather_facts": False,
        "roles": [{"role": "gpu.node.nvidia_driver"}],
    }
]
# One of each, and the rest by `make test-all`.
FIRST = ("ubuntu", CORES[0])
CASES = [
    pytest.param(family, core, marks=[] if (family, core) == FIRST else pytest.mark.long)
    for family in FAMILIES
    for core in CORES
]


class Controller:
    """A controller with one node, which is a played machine."""

    def __init__(self, folder: Path, core: Path, node: Rooted) -> None:
        self._folder, self._core = folder, core
        folder.mkdir()
        machine = folder / "machine"
        machine.write_bytes(pickle.dumps(node))
        python = folder / "python"
        words = f"{sys.executable} -m tests.fakes.played.interpreter {machine}"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(sys.path)} exec {words} "$@"\n')
        python.chmod(0o755)
        host = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": host}}}))
        (folder / "site.yml").write_text(json.dumps(ROLE))

    def play(self, *options: str, **variables: Any) -> int:
        """Run the role and return how many tasks have changed something.

        Raises:
            AssertionError: if the run fails.
        """
        argv = [str(self._core / "bin/ansible-playbook"), "-i", str(self._folder / "hosts.json")]
        argv += [str(self._folder / "site.yml"), "-e", json.dumps(variables), *options]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],  # where Debian's rpm has its database
            "LANG": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache/collections"),
            "ANSIBLE_HOME": str(self._folder / "ansible"),
            "ANSIBLE_INJECT_FACT_VARS": "false",
        }
        done = subprocess.run(
            argv, cwd=REPOSITORY, env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        changed = re.search(r"^node +: .* changed=(\d+)", done.stdout, re.M)
        assert changed, done.stdout
        return int(changed[1])


@pytest.mark.parametrize(("family", "core"), CASES)
def test_driver_comes_stays_and_goes_by_the_role(
    place: Path, tmp_path: Path, family: str, core: str
) -> None:
    tools, make, variables = FAMILIES[family]
    if lacking := missing(tools):
        pytest.skip(lacking)
    node = make(place)
    controller = Controller(tmp_path / "controller", made(core), node)
    before = node.installed()
    assert controller.play("--check", **variables) == 1
    assert node.installed() == before
    assert controller.play(**variables) == 1
    assert node.works()
    assert controller.play(**variables) == 0
    controller.play(nvidia_driver_state="absent")
    assert node.installed() == before
