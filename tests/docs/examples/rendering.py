# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Renders examples by Ansible's own templates, in a process of its own: plugins can be loaded once in each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

from tests.docs.tables import examples
from tests.support.paths import COLLECTIONS, REPOSITORY

ROLE = REPOSITORY / "roles/fractions"
ASSERT, KEEP = "ansible.builtin.assert", "gpu.node.cluster_objects"
# What a play knows of a host besides.
NAMES = {"inventory_hostname": "node-1", "ansible_host": "10.0.0.5"}


def render(found: Sequence[Any], defaults: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return of each example its ``values``, the variables that it sets, and the ``objects`` of the role fractions.

    ``folder`` has the files that examples read. ``error`` is why one can't be rendered, or why that role refuses it.
    """
    job = {"examples": list(found), "defaults": defaults, "folder": str(folder)}
    words = [sys.executable, "-m", "tests.docs.examples.rendering"]
    done = subprocess.run(
        words,
        input=json.dumps(job, default=str),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: list[dict[str, Any]] = json.loads(done.stdout)
    return answer


def _load(loader: DataLoader, path: Path) -> Any:
    return loader.load_from_file(str(path), cache="none", trusted_as_template=True)


def _render(data: Any, defaults: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    loader = DataLoader()
    loader.set_basedir(str(REPOSITORY / "playbooks"))  # that of a packaged playbook
    path = folder / "example.yml"
    path.write_text(yaml.safe_dump(data))
    own = _load(loader, ROLE / "vars/main.yml")
    known = {**NAMES, "inventory_dir": str(folder), **defaults, **own, "role_path": str(ROLE)}
    try:
        given = dict(examples.settings(_load(loader, path)))
        values = Templar(loader=loader, variables={**known, **given}).template(given)
        pinned = {"options": {**defaults, **values}}
        whole = Templar(loader=loader, variables={**known, **values, "__pinned": pinned})
        refused, objects = _of_cluster(whole, loader) if _asks(values) else ("", [])
    except AnsibleError as error:
        return {"error": str(error)}
    return {"values": values, "objects": objects, "error": refused}


def _asks(values: Mapping[str, Any]) -> bool:
    """Return whether the role fractions would be given something."""
    return any(one.startswith("fractions_") for one in values)


def _of_cluster(whole: Templar, loader: DataLoader) -> tuple[str, list[Any]]:
    """Return what the role refuses before it asks a cluster, and what it would keep there."""
    tasks = _load(loader, ROLE / "tasks/main.yml")
    for one in (task[ASSERT] for task in tasks if ASSERT in task):
        if not whole.template(trust_as_template(f"{{{{ {one['that']} }}}}")):
            return whole.template(one["fail_msg"]), []
    (kept,) = (task[KEEP]["objects"] for task in tasks if KEEP in task)
    return "", whole.template(kept)


if __name__ == "__main__":
    init_plugin_loader([str(COLLECTIONS)])
    job = json.load(sys.stdin)
    made = [_render(one, job["defaults"], Path(job["folder"])) for one in job["examples"]]
    json.dump(made, sys.stdout, default=str)
