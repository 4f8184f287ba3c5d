# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A handler of containerd's is not taken from pods that need it to start a container again."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import cri_status
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.containerd import PYTHON
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.runtime_host import CONFIG, RuntimeHost, converge


def node(*pods: tuple[str, str]) -> RuntimeHost:
    """Return a node whose containerd has the handler, and says over CRI that it has these pods."""
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    host.install_toolkit()
    converge(host, mode="runtime_class")
    answers = {"pods": json.dumps(pods)}
    host.commands[PYTHON,] = lambda words: Completed(0, answers.get(words[-1], ""), "")
    return host


@pytest.mark.parametrize("change", [{"mode": "cdi"}, {"state": "absent"}], ids=["cdi", "absent"])
def test_handler_of_pods_that_run_stays(change: dict[str, str]) -> None:
    host = node(("team/train-0", "nvidia"), ("kube-system/proxy", ""))
    before = host.own_files()
    with pytest.raises(
        NodeError, match=r"start a container again in team/train-0: .*of the handler nvidia"
    ):
        converge(host, **change)
    assert host.own_files() == before
    converge(host, **change, restart="always")


@pytest.mark.parametrize("pods", [(), (("kube-system/proxy", ""), ("a/b", "kata"))])
def test_handler_that_no_pod_needs_goes(pods: tuple[tuple[str, str], ...]) -> None:
    host = node(*pods)
    converge(host, mode="cdi")
    assert "nvidia" not in host.files[CONFIG]


def message(number: int, value: bytes) -> bytes:
    """Return a field of a protocol buffer with a text or a message."""
    size, rest = b"", len(value)
    while rest > 127:
        size, rest = size + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | cri_status.TEXT]) + size + bytes([rest]) + value


@given(st.lists(st.tuples(st.text(), st.text(), st.text())))
def test_pods_are_read_as_cri_sends_them(pods: list[tuple[str, str, str]]) -> None:
    answer = b""
    for namespace, name, handler in pods:
        about = message(1, name.encode()) + message(3, namespace.encode())
        item = message(1, b"id") + message(2, about) + b"\x18\x00\x20\x80\x01"
        answer += message(1, item + message(7, handler.encode()))
    found = json.loads(cri_status.pods(answer))
    assert found == [[f"{namespace}/{name}", handler] for namespace, name, handler in pods]
