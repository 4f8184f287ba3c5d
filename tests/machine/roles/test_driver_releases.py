# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of releases as the role reads it: from a file beside the playbook, or from the variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runner.tiers import long_but_first
from tests.support.paths import REPOSITORY

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
YAML = """\
as_of: 2026-10-01
branches:
  580: {kind: lts, end_of_support: 2028-06}
bulletins:
  - id: "5861"
    date: 2026-09-30
    floors: {580: 580.178.04}
"""
ACCEPTED = "no NVIDIA driver is loaded"  # what comes next on a machine without one

pytestmark = [
    pytest.mark.skipif(not ANSIBLE.exists(), reason="needs ansible-playbook"),
    pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="needs a machine without one"),
]


def said(tmp_path: Path, releases: Any, text: str = "") -> str:
    """Return what the role says, with a file releases.yml beside the playbook."""
    role = {"name": "gpu.node.nvidia_driver", "tasks_from": "driver"}
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local"}
    play |= {"tasks": [{"ansible.builtin.include_role": role}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "releases.yml").write_text(text)
    wanted = {"nvidia_driver_source": "preinstalled", "nvidia_driver_releases": releases}
    wanted |= {"ansible_python_interpreter": sys.executable}
    (tmp_path / "vars.yml").write_text(json.dumps(wanted))
    command = [ANSIBLE, "--check", "-i", "localhost,", "-e", f"@{tmp_path}/vars.yml"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": f"{REPOSITORY}/.cache/collections"}
    environment |= {"ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_LOCALHOST_WARNING": "false"}
    done = subprocess.run(
        [*command, tmp_path / "play.yml"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("releases", long_but_first(["releases.yml", True, False, {}]))
def test_table_of_whatever_form_is_taken(tmp_path: Path, releases: object) -> None:
    assert ACCEPTED in said(tmp_path, releases, YAML)


@pytest.mark.parametrize(
    ("releases", "text", "words"),
    long_but_first(
        [
            (
                "releases.yml",
                "as_of: tomorrow\n",
                "releases.as_of (nvidia_driver_releases): 'tomorrow' is not valid",
            ),
            (
                "releases.yml",
                "",
                "releases (nvidia_driver_releases): '(an empty file)' is not valid",
            ),
            ("other.yml", YAML, "releases (nvidia_driver_releases): 'other.yml' is not valid"),
            ({"as_of": "2026-10-01", "branch": {}}, "", "did you mean branches?"),
        ]
    ),
)
def test_bad_table_is_refused_by_its_key(
    tmp_path: Path, releases: object, text: str, words: str
) -> None:
    found = said(tmp_path, releases, text)
    assert words in found
    assert ACCEPTED not in found
