# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the tests of the driver share: its playbook, its answer, and the node before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpunode_tool.testing import Node, Play

HERE = Path(__file__).parent
PLAY = str(HERE / "driver.yml")  # the driver's role alone
LOOK = (
    "dpkg --get-selections; apt-mark showhold; apt-mark showauto;"
    " find /etc -xdev -type f ! -name 'ld.so.cache' ! -path '/etc/.updated'"
    # A purge leaves the accounts that packages have made, as Debian wants it.
    " ! -name 'passwd*' ! -name 'group*' ! -name 'shadow*' ! -name 'gshadow*' | sort | xargs sha256sum;"
    " find /etc/systemd /etc/alternatives /etc/modprobe.d | sort"
)
USER_SPACE = (
    "firmware-nvidia-gsp",
    "libcuda1",
    "libnvidia-cfg1",
    "libnvidia-ml1",
    "nvidia-cuda-mps",
    "nvidia-smi",
)
OPEN, PROPRIETARY = "nvidia-open-kernel-dkms", "nvidia-kernel-dkms"


def play(node: Node, **variables: Any) -> Play:
    """Run the driver's role alone."""
    return node.play(PLAY, **variables)


def answer(run: Play) -> dict[str, Any]:
    """Return what the module answered, the last time that it ran."""
    found = [result for action, _task, result in run.results() if "nvidia_driver" in action]
    assert found, run.message()
    return found[-1]


def look(node: Node) -> list[str]:
    """Return the packages, their marks and the files in /etc."""
    return node.run("sh", "-c", LOOK).splitlines()


def script(node: Node, name: str, *words: str) -> str:
    """Run a script of this folder on the node."""
    return node.run("python3", "-c", (HERE / name).read_text(), *words)
