# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The controller's half of the check: variables out of a play, and the daemon's configuration by its own parser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

GPU = "/sys/bus/pci/devices/"


PLAY = """
- hosts: all
  gather_facts: false
  vars:
    mig_selected: "{{ layouts[inventory_hostname] }}"
    cdi_path: "{{ nobody_has_set_this }}"
    layouts: {node: all-disabled}
  tasks:
    - gpu.node.preflight:
        components: [mig, cdi, device_plugin]
"""


def test_the_variables_are_those_of_the_play(tmp_path: Path) -> None:
    if any((Path(GPU) / one / "vendor").read_text() == "0x10de\n" for one in os.listdir(GPU)):
        pytest.skip("this machine has a GPU of NVIDIA's, and would be checked")
    (tmp_path / "play.yml").write_text(PLAY)
    words = ["ansible-playbook", "--inventory", "node,", "--connection", "local", "play.yml"]
    words += ["--extra-vars", "ansible_python_interpreter=/usr/bin/python3"]
    env = {**os.environ, "ANSIBLE_VERBOSITY": "3"}  # which answers with what the module was given
    done = subprocess.run(words, cwd=tmp_path, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("ok: [node] => ")[2].partition("PLAY RECAP")[0]
    args = json.JSONDecoder().raw_decode(shown)[0]["invocation"]["module_args"]
    assert args["variables"] == {"mig_selected": "all-disabled"}
    (refused,) = args["refused"]
    assert refused["variable"] == "cdi_path"
    assert "'nobody_has_set_this' is undefined" in refused["text"]
