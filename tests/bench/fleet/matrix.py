# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible's own settings do to a run where nothing has drifted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .draw import table
from .measure import Cost, inventory, measure
from .scenes import scenes, without_pipelining

SETTINGS: dict[str, dict[str, str]] = {
    "forks 1": {"ANSIBLE_FORKS": "1"},
    "forks 5": {"ANSIBLE_FORKS": "5"},
    "forks 20": {"ANSIBLE_FORKS": "20"},
    "forks 50": {"ANSIBLE_FORKS": "50"},
    "forks 20, free": {"ANSIBLE_STRATEGY": "ansible.builtin.free"},
    "forks 20, host_pinned": {"ANSIBLE_STRATEGY": "ansible.builtin.host_pinned"},
    "forks 20, polling 0.05 s": {"defaults": "internal_poll_interval = 0.05"},
    "forks 20, Ansible's display": {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
    "forks 20, facts in files": {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": "facts",
    },
}
RUNNER = """\
import ansible_runner, json, sys
folder, inventory = sys.argv[1:]
run = ansible_runner.run(
    private_data_dir=folder, inventory=inventory, playbook="gpu.node.gpu_nodes", quiet=True, rotate_artifacts=1
)
sys.exit(run.rc)
"""


def matrix(folder: Path, number: int) -> int:
    """Measure each setting on so many nodes."""
    _plan, same = scenes(folder)
    display = {"ANSIBLE_STDOUT_CALLBACK": "gpu.node.progress"}
    for name, settings in SETTINGS.items():
        _say(name, same.run(number, **{**display, **settings}))
    _say("forks 20, no pipelining", without_pipelining(folder).run(number, **display))
    _say(
        "forks 20, ansible-runner",
        measure(same.folder, number, command=_runner(same.folder, number)),
    )
    return 0


def _runner(folder: Path, number: int) -> Sequence[str]:
    private = folder / "runner"
    private.mkdir(exist_ok=True)
    return [sys.executable, "-c", RUNNER, str(private), str(inventory(folder, number))]


def _say(name: str, cost: Cost) -> None:
    print(f"{name:28} {table([cost])[-1]}", flush=True)
