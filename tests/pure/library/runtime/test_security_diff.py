# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a module tells of a runtime's file has none of the passwords in it: logs and callbacks get all of that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.runtime_host import CONFIG, DAEMON, RuntimeHost, capability

TOML = """\
version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    # by hand
    sandbox_image = "https://ci:S3cret-url@registry.corp/pause:3.10"
    [plugins."io.containerd.grpc.v1.cri".registry.configs."registry.corp".auth]
      username = "S3cret-user"
      password = "S3cret-password"
      auth = \"\"\"
S3cret-over
S3cret-lines\"\"\"
      identitytoken = 'S3cret-token'
    [plugins."io.containerd.grpc.v1.cri".registry.configs."other.corp"]
      auth = { username = "S3cret-inline", password = "S3cret-inline" }
    [plugins."io.containerd.grpc.v1.cri".registry.headers]
      Authorization = [
        "Basic S3cret-header",
      ]
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      env = ["HTTPS_PROXY=http://proxy:S3cret-proxy@corp", "VAULT_TOKEN=S3cret-env"]
"""
JSON: dict[str, Any] = {
    "auths": {"registry.corp": {"auth": "S3cret-auth", "email": "S3cret-mail"}},
    "proxies": {"http-proxy": "http://me:S3cret-proxy@proxy.corp:3128"},
    "log-opts": {"splunk-token": "S3cret-splunk"},
    "runtimes": {"x": {"path": "/x", "runtimeArgs": ["--token", "S3cret-arg"]}},
}
FILES = [(CONFIG, TOML), (DAEMON, json.dumps(JSON, indent=2)), (DAEMON, json.dumps(JSON))]
files = pytest.mark.parametrize(("path", "text"), FILES, ids=["toml", "json", "json-oneline"])


class Left(Exception):
    """The module has ended."""


class Module:
    """An AnsibleModule that keeps its answer."""

    _name = "container_runtime"
    check_mode = False

    def __init__(self, diff: bool) -> None:
        self._diff = diff
        self.params: dict[str, Any] = {}
        self.no_log_values: set[str] = set()
        self.answer: dict[str, Any] = {}

    def warn(self, text: str) -> None:
        self.answer.setdefault("warnings", []).append(text)

    def exit_json(self, **answer: Any) -> None:
        self.answer.update(answer)
        raise Left

    fail_json = exit_json


def machine(path: str, text: str) -> RuntimeHost:
    versions = {"docker": "26.1.5"} if path == DAEMON else {"containerd": "1.7.24"}
    return RuntimeHost({path: text}, **versions)


def answer(host: FakeHost, path: str, *, diff: bool, state: str = "present") -> dict[str, Any]:
    module = Module(diff)
    runtime = "docker" if path == DAEMON else "containerd"
    with pytest.raises(Left):
        run_capability(module, lambda: capability(host, name=runtime, state=state))
    return module.answer


@pytest.mark.attack("registry-password-shown")
@files
@pytest.mark.parametrize("diff", [False, True])
def test_results_have_no_password(path: str, text: str, diff: bool) -> None:
    host = machine(path, text)
    for state in ("present", "absent"):
        found = answer(host, path, diff=diff, state=state)
        assert found["changed"], found
        assert "S3cret" not in json.dumps(found)
        assert bool(found["diff"]) == diff
    assert host.files[path] == text


@pytest.mark.attack("registry-password-shown")
def test_a_diff_shows_what_changes_and_little_more() -> None:
    text = TOML + "".join(f"# line {number}\n" for number in range(200))
    found = answer(machine(CONFIG, text), CONFIG, diff=True)["diff"]
    assert "enable_cdi = true" in found["after"]
    assert "enable_cdi" not in found["before"]
    assert "line 7" not in found["before"] + found["after"]
    assert len(found["after"].splitlines()) < 20


@pytest.mark.attack("registry-password-shown")
@files
def test_an_error_has_no_password_that_a_runtime_repeats(path: str, text: str) -> None:
    host = machine(path, text)
    for words in [("dockerd", "--validate"), ("containerd", "--config")]:
        if words in host.commands:
            host.commands[words] = Completed(1, "", f"can't take this:\n{text}")
    found = answer(host, path, diff=False)
    assert "can't take this" in found["msg"]
    assert "S3cret" not in json.dumps(found)
