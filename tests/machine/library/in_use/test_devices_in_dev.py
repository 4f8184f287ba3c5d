# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices that a container sees in its /dev, on this very machine: no server of a tenant's is asked."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.knowledge import (
    Absent,
    Knowledge,
    Known,
    Unknown,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.devices import MOST_NODES, Device
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

from tests.support import helper_process

NULL, ZERO, FULL = Device(1, 3), Device(1, 5), Device(1, 7)
OWN = "mount -t tmpfs none /dev; mknod /dev/a c 1 3; mkdir /dev/nvidia-caps; "
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def container(script: str) -> Iterator[int]:
    """Run a process in a mount namespace of its own, in which a script was run."""
    words = ["unshare", "--mount", "sh", "-ec", f"{script}; echo there; read x"]
    running = helper_process.start(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, ready=helper_process.printed("there")
    )
    try:
        yield running.pid
    finally:
        running.close()


def seen(script: str) -> Knowledge[frozenset[Device]]:
    with container(script) as pid:
        return Host().devices_in_dev(pid)


def test_nodes_count_by_their_numbers_and_those_of_instances_too() -> None:
    assert seen(f"{OWN} mknod /dev/nvidia-caps/b c 1 7") == Known(frozenset((NULL, FULL)))


def test_a_node_that_is_bound_from_the_host_counts(tmp_path: Path) -> None:
    node = tmp_path / "zero"
    node.touch()
    bound = f"mount --bind /dev/zero {node}; {OWN} touch /dev/z; mount --bind {node} /dev/z"
    assert seen(bound) == Known(frozenset((NULL, ZERO)))


@pytest.mark.attack("gpu-by-another-name")
def test_links_of_a_tenant_lead_nowhere() -> None:
    links = "ln -s /proc/1/root/dev/full /dev/f; rmdir /dev/nvidia-caps; ln -s /proc/1/root/dev /dev/nvidia-caps"
    assert seen(f"{OWN} {links}") == Known(frozenset((NULL,)))


def test_the_nodes_own_dev_says_nothing_of_a_container() -> None:
    assert seen(":") == Absent()


@pytest.mark.attack("gpu-by-another-name")
def test_a_file_system_that_a_tenant_serves_is_not_listed(tmp_path: Path) -> None:
    found = seen(f"{OWN} mount --bind {tmp_path} /dev/nvidia-caps")
    assert isinstance(found, Unknown)
    assert "is not asked" in found.reason


@pytest.mark.attack("gpu-by-another-name")
def test_a_folder_with_too_many_names_is_not_read_in_full() -> None:
    found = seen(f"{OWN} cd /dev; seq {MOST_NODES} | xargs touch")
    assert isinstance(found, Unknown)
    assert str(MOST_NODES) in found.reason


def test_a_process_that_has_ended_sees_nothing() -> None:
    with container(":") as pid:
        pass
    assert Host().devices_in_dev(pid) == Known(frozenset())


def test_who_listens_at_a_socket_is_known_by_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    assert Host().listener(str(path)) == Absent()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert Host().listener(str(path)) == Absent()
        listening.listen()
        assert Host().listener(str(path)) == Known(os.getpid())
