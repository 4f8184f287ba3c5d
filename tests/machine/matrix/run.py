# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run the playbook of all modules on this machine, which stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvsim.testing import Sim

from tests.support.paths import REPOSITORY

HERE = Path(__file__).resolve().parent
# What modules write goes to memory, for them only.
PRIVATE = """\
set -e
mount -t tmpfs matrix "$1"
for folder in etc opt run var; do
  mkdir -p "$1/$folder/new" "$1/$folder/work"
  mount -t overlay -o "lowerdir=/$folder,upperdir=$1/$folder/new,workdir=$1/$folder/work" matrix "/$folder"
done
shift
exec "$@"
"""
# What users bring along: a umask of CIS' profiles, a language, few folders of programs, no home, no input.
HARDENED = """\
umask 077
unset HOME
export LANG=C.UTF-8 LC_ALL=C.UTF-8 LANGUAGE=de PATH=/usr/bin:/bin
exec "$@" <&-
"""


@dataclass
class Answers:
    """What each task answered, and what ansible printed."""

    of: dict[str, dict[str, Any]]
    output: str


def run_modules(
    folder: Path, sim: Sim, core: Path, target: Path, login: str = 'exec "$@"'
) -> Answers:
    """Run every module with a core, under the Python of an environment, from a login as a shell has it."""
    private, answers = folder / "private", folder / "answers"
    private.mkdir()
    answers.touch()
    node = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(target / "bin/python"),
        "driver_root": str(sim.root),
        "package": str(REPOSITORY / "files/gpu_plugin"),
        "collection": str(REPOSITORY),
    }
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"node": node}}}))
    words = ["unshare", "--mount", "sh", "-c", PRIVATE, "-", str(private), "sh", "-c", login, "-"]
    words += [str(core / "bin/ansible-playbook"), "--inventory", str(inventory)]
    env = {
        **{name: value for name, value in sim.env.items() if name != "PYTHONPATH"},
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "answers",
        "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
        "ANSIBLE_DEPRECATION_WARNINGS": "true",
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_HOME": str(folder / "home"),
        "MATRIX_ANSWERS": str(answers),
    }
    done = subprocess.run(
        [*words, str(HERE / "modules.yml")], env=env, check=False, capture_output=True, text=True
    )
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    return Answers(
        {one["task"].removeprefix("Run "): one["answer"] for one in lines},
        done.stdout + done.stderr,
    )
