# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Bad files are named with their line and what was expected, and stay as they are; odd ones are edited."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.runtime.genuine_runtimes import (
    CONFIG,
    DAEMON,
    WRAPPER,
    GenuineRuntimes,
    converge,
    every_suite,
    planned,
    with_cdi,
)

Make = Callable[..., GenuineRuntimes]
CRI = 'plugins."io.containerd.grpc.v1.cri"'
RUNC = '{ runc = { runtime_type = "io.containerd.runc.v2" } }'
ODD = {
    "inline plugins": "version = 2\nplugins = {}\n",
    "inline runtimes": f"version = 2\n[{CRI}.containerd]\nruntimes = {RUNC}\n",
    "child first": f"version = 2\n[{CRI}.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
    f'[{CRI}.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n',
    "parents last": f'version = 2\n[{CRI}.cni]\nbin_dir = "/x"\n[{CRI}]\nsandbox_image = "p:9"\n'
    f'[plugins]\n[{CRI}.registry]\nconfig_path = "/y"\n',
    "dots": f'{CRI}.sandbox_image = "p:9"\nversion = 2\n',
}


@every_suite
@pytest.mark.parametrize("layout", ODD)
def test_odd_layout_is_edited(machine: Make, suite: str, layout: str) -> None:
    node = machine(suite, {CONFIG: ODD[layout]})
    node.install_toolkit()
    before, effective = node.files(), node.cri()
    converge(node, mode="runtime_class")
    handler = node.cri()["containerd"]["runtimes"].pop("nvidia")
    assert handler["options"]["BinaryName"] == WRAPPER
    after = {**node.cri(), "enable_cdi": effective.get("enable_cdi")}
    ours = after["containerd"]["runtimes"]
    assert after.get("sandbox_image") == effective.get("sandbox_image")
    assert after.get("cni") == effective.get("cni")
    assert set(ours) - {"nvidia"} == set(effective["containerd"]["runtimes"])
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


BAD = {
    "version = {}\n": r"line 1: version: {} is not valid: expected a whole number",
    "# x\n\nversion = '2'\n": r"line 3: version: \"2\" is not valid: expected a whole number",
    "version = 2\nimports = 'x'\n": r"line 2: imports: \"x\" is not valid: expected a list",
    "version = 2\n\nplugins = 3\n": r"line 3: plugins: 3 is not valid: expected a table",
    "version = 2\n[plugins\n": "is not valid TOML.*line 2",
    "version = 2\n[a]\n[a]\n": "is not valid TOML.*line 3",
    'version = 2\nx = "\x00"\n': "is not valid TOML.*line 2",
    "version = 1\n": "format version 1: expected 2, 3 or 4",
    f"version = 2\n[{CRI}]\ncontainerd = 3\n": CONFIG,
    f"version = 2\n[{CRI}.containerd]\nruntimes = [1]\n": CONFIG,
    f"version = 2\n[{CRI}.containerd.runtimes]\nrunc = 3\n": CONFIG,
    f"version = 2\n[{CRI}.containerd.runtimes]\nnvidia = 3\n": CONFIG,
    f"version = 2\n[[{CRI}.containerd.runtimes.nvidia]]\n": CONFIG,
}


@every_suite
@pytest.mark.parametrize("text", BAD)
def test_bad_configuration_of_containerd_is_named(machine: Make, suite: str, text: str) -> None:
    node = machine(suite, {CONFIG: text})
    node.install_toolkit()
    before = node.files()
    with pytest.raises(NodeError, match=BAD[text]) as caught:
        planned(node, mode="runtime_class")
    assert CONFIG in str(caught.value) or "containerd's configuration" in str(caught.value)
    assert node.files() == before


BAD_JSON = {
    '{"features": true}': "line 1: features: true is not valid: expected an object",
    '{\n  "features": {\n},\n  "runtimes": []}': r"line 4: runtimes: \[\] is not valid",
    '{"cdi-spec-dirs": "/etc/cdi"}': "expected a list",
    '{"runtimes": {"nvidia": true}}': "runtimes.nvidia is not an object",
    "[]": "is not a JSON object",
    '{\n"a": 1,\n}': "not valid JSON.*line 3",
}


@with_cdi
@pytest.mark.parametrize("text", BAD_JSON)
def test_bad_configuration_of_docker_is_named(machine: Make, suite: str, text: str) -> None:
    node = machine(suite, {DAEMON: text})
    node.install_docker()
    node.install_toolkit()
    before = node.files()
    with pytest.raises(NodeError, match=BAD_JSON[text]):
        planned(node, name="docker", mode="runtime_class")
    assert node.files() == before
