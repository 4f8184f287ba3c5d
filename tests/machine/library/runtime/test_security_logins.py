# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the password in a repository's address can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.modules import container_toolkit, nvidia_driver

from tests.fakes.library.in_process import said_by

TOKEN = "S3cr3tT0ken"
HOST = "mirror.example.com"
LOGINS = (f"ci:{TOKEN}", TOKEN, f"ci:{TOKEN}@more", f"ci:{TOKEN * 20}")
MODULES = [(nvidia_driver, {"source": "repository"}), (container_toolkit, {})]


def run(module: Any, given: dict[str, Any], repository: dict[str, Any], folder: Path) -> str:
    """Return all that a module says in check mode."""
    asked = {**given, "repository": repository}
    return said_by(module, asked, folder, check_mode=True, verbosity=4)


@pytest.mark.parametrize(("module", "given"), MODULES, ids=["nvidia_driver", "container_toolkit"])
@pytest.mark.parametrize("option", ["base_url", "url", "key"])
def test_password_in_an_address_is_refused_and_stands_nowhere(
    module: Any, given: dict[str, Any], option: str, tmp_path: Path
) -> None:
    preset = {} if option == "url" else {"preset": "nvidia"}
    for login in LOGINS:
        asked = {option: f"https://{login}@{HOST}/cuda", **preset}
        answer = run(module, given, asked, tmp_path)
        assert f"repository.{option}" in json.loads(answer)["msg"]
        assert HOST in answer
        assert TOKEN not in answer


def test_address_without_a_password_is_shown_as_it_is(tmp_path: Path) -> None:
    asked = {"preset": "none", "base_url": f"https://{HOST}/cuda"}
    answer = json.loads(run(container_toolkit, {}, asked, tmp_path))
    assert answer["invocation"]["module_args"]["repository"]["base_url"] == asked["base_url"]
