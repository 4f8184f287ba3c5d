# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The commands that need no node, installed from the collection as the page of the controller says."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.environments.environment import interpreter
from tests.machine.release.conftest import Installed
from tests.support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs/operations/controller.md").read_text()


@pytest.mark.long  # it installs all libraries
def test_both_packages_come_by_the_page_s_commands_and_leave_the_collection_as_it_is(
    installed: Installed,
) -> None:
    block = re.search(r"## Commands without a node.*?```console\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    lines = [one.removeprefix("$ ") for one in block[1].splitlines() if one.startswith("$ ")]
    there = installed.home / ".ansible/collections/ansible_collections/gpu/node"
    before = sorted(there.rglob("*"))
    (installed.home / "config.yaml").write_text("version: v1\n")
    (installed.home / "bin").mkdir()
    (installed.home / "bin/python3").symlink_to(interpreter("3.12"))
    script = [f"C={shlex.quote(str(there))}", "PATH=~/bin:$PATH", *lines]
    script += ["~/gpu-node/bin/gpu-cluster webhook --show-node node-1"]
    script += ["~/gpu-node/bin/gpu-cluster show --help"]
    done = installed.run("bash", "-euo", "pipefail", "-c", "\n".join(script))
    assert "config.yaml: valid" in done.stdout
    assert "# node-1, from HAMi's configuration" in done.stdout
    assert "usage: gpu-cluster show" in done.stdout
    assert [one for one in sorted(there.rglob("*")) if one not in before] == []
    copied = list((installed.home / "gpu-node").rglob("gpu_plugin/_shared/_base/boot.py"))
    assert [one.is_symlink() for one in copied] == [False]
