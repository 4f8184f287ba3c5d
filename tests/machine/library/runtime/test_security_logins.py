# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the password in a repository's address can be read, with the modules as Ansible runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.library.hostile_index import REPOSITORY

TOKEN = "S3cr3tT0ken"
HOST = "mirror.example.com"
MODULES = {"nvidia_driver": {"source": "repository"}, "container_toolkit": {}}


def run(module: str, repository: dict[str, Any], tmp_path: Path) -> str:
    """Return all that a module says in check mode."""
    common = {"_ansible_remote_tmp": str(tmp_path), "_ansible_verbosity": 4}
    modes = {"_ansible_check_mode": True, "_ansible_diff": True}
    args = {**MODULES[module], "repository": repository, **common, **modes}
    path = tmp_path / "args.json"
    path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": args}))
    words = [sys.executable, "-m", f"ansible_collections.gpu.node.plugins.modules.{module}", path]
    paths = {"PYTHONPATH": str(REPOSITORY / ".cache/collections")}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=paths)
    return done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("login", [f"ci:{TOKEN}", TOKEN, f"ci:{TOKEN}@more", f"ci:{TOKEN * 20}"])
@pytest.mark.parametrize("option", ["base_url", "url", "key"])
def test_password_in_an_address_is_refused_and_stands_nowhere(
    module: str, login: str, option: str, tmp_path: Path
) -> None:
    said: dict[str, Any] = {option: f"https://{login}@{HOST}/cuda"}
    if option != "url":
        said["preset"] = "nvidia"
    answer = run(module, said, tmp_path)
    assert f"repository.{option}" in json.loads(answer)["msg"]
    assert HOST in answer
    assert TOKEN not in answer


def test_address_without_a_password_is_shown_as_it_is(tmp_path: Path) -> None:
    said = {"preset": "none", "base_url": f"https://{HOST}/cuda"}
    answer = json.loads(run("container_toolkit", said, tmp_path))
    assert answer["invocation"]["module_args"]["repository"]["base_url"] == said["base_url"]
