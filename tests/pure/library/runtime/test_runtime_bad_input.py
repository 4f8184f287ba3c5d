# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What container_runtime refuses before it touches a file, and records that it cannot read."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import MARK, RECORD

from tests.fakes.library.runtime_host import CONFIG, RuntimeHost, capability, converge


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"handler": ""}, "handler: '' is not valid"),
        ({"handler": "NVIDIA GPU"}, "as the handler of a RuntimeClass"),
        ({"handler": "-gpu"}, "handler"),
        ({"handler": "g" * 64}, "up to 63"),
        ({"handler": "runc", "mode": "runtime_class"}, "a name of its own"),
        ({"handler_path": "nvidia-container-runtime"}, "handler_path.*an absolute path"),
        ({"config_path": "config.toml"}, "config_path.*an absolute path"),
        ({"spec_dirs": ["/etc/cdi", "cdi"]}, "spec_dirs: 'cdi'.*an absolute path"),
    ],
)
def test_value_that_cannot_be_meant_is_named(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        capability(RuntimeHost(containerd="1.7.24"), **params)


def test_longest_name_of_a_handler_is_taken() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    host.install_toolkit()
    converge(host, mode="runtime_class", handler="g" * 63)
    assert "g" * 63 in host.cri()["containerd"]["runtimes"]


@pytest.mark.parametrize("text", ["{", "[]", '{"/etc/x": {}}', '{"/etc/x": 3}'])
def test_record_that_is_damaged_is_named(text: str) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n", RECORD: text}, containerd="1.7.24")
    one = capability(host)
    with pytest.raises(NodeError, match=f"{RECORD} is damaged.*remove the file"):
        one.observe()
    assert host.files[RECORD] == text


@pytest.mark.parametrize("text", ["{", "[]", '{"containerd.service": "now"}'])
def test_mark_that_is_damaged_is_named(text: str) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n", MARK: text}, containerd="1.7.24")
    one = capability(host)
    with pytest.raises(NodeError, match=f"{MARK} is damaged.*restart the container runtime"):
        one.observe()
