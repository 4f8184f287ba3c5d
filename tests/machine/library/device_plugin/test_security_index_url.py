# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""S9: where the password of a package index can be read, with the genuine pip and the module as Ansible runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.release import masked

from tests.fakes.library.hostile_index import (
    GENUINE,
    GOOD,
    REPOSITORY,
    Index,
    Install,
    listed,
    payload,
)

TOKEN = "S3cr3tT0ken"
Module = t.Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path) -> Module:
    """Return a function that runs the module with an index and returns all that it says."""

    def run(url: str) -> str:
        args = {
            "state": "installed",
            "digest": "r1",
            "prefix": str(tmp_path / "prefix"),
            "index_url": url,
            "payload": payload(tmp_path, listed(GOOD), {}),
            "_ansible_remote_tmp": str(tmp_path),
            "_ansible_verbosity": 4,
        }
        path = tmp_path / "args.json"
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": args}))
        own = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
        name = "ansible_collections.gpu.node.plugins.modules.device_plugin"
        done = subprocess.run(
            [sys.executable, "-m", name, str(path)],
            check=False,
            capture_output=True,
            text=True,
            env={**own, "PYTHONPATH": str(REPOSITORY / ".cache/collections")},
        )
        return done.stdout + done.stderr

    return run


@pytest.mark.attack("index-password-shown")
def test_no_command_line_shows_the_password(module: Module) -> None:
    with Index({GENUINE: GOOD}, "ci", TOKEN) as index:
        said = module(f"http://ci:{TOKEN}@{index.host}/simple")
    assert any(one.endswith(GENUINE) for one in index.asked), said  # so that somebody could look
    assert index.seen == set()
    assert TOKEN not in said


@pytest.mark.attack("index-password-shown")
@pytest.mark.parametrize(
    "userinfo",
    [
        pytest.param(f"ci:{TOKEN}", id="password", marks=pytest.mark.long),
        pytest.param(TOKEN, id="token", marks=pytest.mark.long),
        pytest.param(f"{TOKEN}:", id="token-colon", marks=pytest.mark.long),
        pytest.param(f"ci:%53{TOKEN[1:]}", id="escaped", marks=pytest.mark.long),
        pytest.param(f"ci:{TOKEN}@more", id="at-sign"),
    ],
)
def test_no_error_shows_the_password(install: Install, userinfo: str) -> None:
    with Index({}) as index:
        with pytest.raises(NodeError, match="No matching distribution found") as caught:
            install(f"http://{userinfo}@{index.host}/simple")
    assert TOKEN[1:] not in str(caught.value)
    assert TOKEN[1:] not in json.dumps(caught.value.details)


@pytest.mark.attack("index-password-shown")
@pytest.mark.parametrize(
    ("userinfo", "said", "left"),
    [
        (f"ci:{TOKEN}", f"{TOKEN} of ci", "**** of ci"),
        (TOKEN, f"http://{TOKEN}@host/", "http://****@host/"),
        ("ci:a%2Fb", "a/b, a%2Fb", "****, ****"),
        (f"ci:{TOKEN}@more", f"http://ci:{TOKEN}@more@host/", "http://****@host/"),
    ],
)
def test_what_pip_leaves_in_its_words_is_masked(userinfo: str, said: str, left: str) -> None:
    assert masked(said, f"https://{userinfo}@host/simple") == left


@pytest.mark.attack("index-password-shown")
def test_an_address_without_a_password_is_left_in_words() -> None:
    assert masked("pip says host/simple", "https://host/simple") == "pip says host/simple"


@pytest.mark.attack("index-password-shown")
@pytest.mark.parametrize(
    "url", [f"pypi//ci:{TOKEN}@host/simple", f"http://ci:{TOKEN}@host:x/simple"]
)
def test_what_is_refused_is_named_without_the_password(module: Module, url: str) -> None:
    answer = json.loads(module(url))
    assert "index_url: '****@host" in answer["msg"]
    assert "is not valid: expected a URL such as https://host/simple" in answer["msg"]
    assert TOKEN not in json.dumps(answer)
