# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that another tool has set up: what would break silently is told before anything is touched."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine.node import (
    warnings,
)

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import FakeRoom, Look

FOLDER = "/var/lib/kubelet/device-plugins"
UID = "8a1fbd3c-52a4-4c1e-9d59-1f4e7a0c9b55"
SLICE = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
POD = f"/kubepods.slice/kubepods-besteffort.slice/{SLICE}/cri-containerd-{'c' * 64}.scope"
LOGS = f"/var/log/pods/kube-system_nvdp-7k2xq_{UID}/main/0.log"
ENABLED = "/etc/systemd/system/multi-user.target.wants/nvidia-mig-manager.service"


def listening(host: FakeHost, room: FakeRoom, socket: str, cgroup: str, program: str) -> None:
    """Have a process listen on a socket in the kubelet's folder."""
    host.files |= {f"{FOLDER}/{socket}": "", f"{FOLDER}/kubelet.sock": ""}
    host.files |= {"/proc/4711/cgroup": f"0::{cgroup}\n", "/proc/4711/comm": f"{program}\n"}
    host.files |= {"/proc/1/cgroup": "0::/init.scope\n", LOGS: ""}
    room.listeners |= {f"{FOLDER}/{socket}": 4711, f"{FOLDER}/kubelet.sock": 812}


@pytest.mark.parametrize(
    ("socket", "resource"),
    [
        ("nvidia-gpu.sock", "nvidia.com/gpu"),
        ("nvidia-mig-1g.10gb.sock", "nvidia.com/mig-1g.10gb"),
        ("nvidiaGPU-1732291200.sock", "nvidia.com/gpu"),
    ],
)
def test_a_device_plugin_of_somebody_else_is_refused(
    host: FakeHost, room: FakeRoom, look: Look, socket: str, resource: str
) -> None:
    listening(host, room, socket, POD, "nvidia-device-p")
    said = look()
    assert f"another device plugin serves {resource} on this node: process 4711" in said
    assert f"(nvidia-device-p, pod kube-system/nvdp-7k2xq) listens on {FOLDER}/{socket} (" in said
    assert "Or leave device_plugin out of gpu_nodes_components" in said
    assert look(components=["driver", "cdi"]) == ""
    assert look(device_plugin_state="absent") == ""


def test_a_process_that_is_not_seen_is_told_of_by_its_socket(
    host: FakeHost, room: FakeRoom, look: Look
) -> None:
    listening(host, room, "nvidia-gpu.sock", POD, "nvidia-device-p")
    room.listeners[f"{FOLDER}/nvidia-gpu.sock"] = 0
    assert f"on this node: it listens on {FOLDER}/nvidia-gpu.sock" in look()


def test_our_own_plugin_and_those_of_other_devices_are_fine(
    host: FakeHost, room: FakeRoom, look: Look
) -> None:
    listening(host, room, "nvidia-gpu.sock", "/system.slice/gpu-device-plugin.service", "python3")
    assert look() == ""
    room.listeners.clear()
    listening(host, room, "kubevirt-kvm.sock", POD, "device-plugin")
    assert look() == ""


def test_a_socket_that_nobody_listens_on_is_left(host: FakeHost, look: Look) -> None:
    host.files[f"{FOLDER}/nvidia-gpu.sock"] = ""
    assert look() == ""


def test_a_drivers_container_is_refused_before_anything_is_touched(
    host: FakeHost, look: Look
) -> None:
    host.files["/run/nvidia/driver/usr/bin/nvidia-smi"] = ""
    said = look()
    assert "nvidia_driver_source: 'auto' is not possible: a container has its driver" in said
    assert "kubectl label node NAME nvidia.com/gpu.deploy.operands=false" in said
    assert look(nvidia_driver_source="preinstalled") == ""
    assert look(nvidia_driver_state="absent") == ""
    assert look(components=["mig"]) == ""


def test_a_mig_manager_of_somebody_else_is_named(host: FakeHost) -> None:
    assert warnings(host, {}, ["mig"]) == ()
    host.files[ENABLED] = "[Service]\n"
    (said,) = warnings(host, {}, ["mig"])
    assert "nvidia-mig-manager.service is enabled, and makes a MIG layout of its own" in said
    assert "Next step: systemctl disable nvidia-mig-manager.service" in said
    assert warnings(host, {}, ["device_plugin"]) == ()


@pytest.mark.parametrize(
    ("link", "dependencies", "starts"),
    [
        (None, "", True),  # the distribution's, graphical.target
        ("/lib/systemd/system/multi-user.target", "", True),
        ("/etc/systemd/system/site.target", "site.target\nmulti-user.target\nsshd.service\n", True),
        ("/etc/systemd/system/site.target", "site.target\nbasic.target\n", False),
        ("/usr/lib/systemd/system/rescue.target", "rescue.target\nsysinit.target\n", False),
    ],
)
def test_a_boot_that_starts_no_services_is_a_warning(
    host: FakeHost, link: str | None, dependencies: str, starts: bool
) -> None:
    if link:
        host.links["/etc/systemd/system/default.target"] = link
        name = link.rpartition("/")[2]
        host.commands["systemctl", "list-dependencies", "--plain", name] = dependencies
    text = "\n".join(warnings(host, {}, ["cdi"]))  # type: ignore[arg-type]
    assert (text == "") == starts
    assert starts or f"boots into {link.rpartition('/')[2]}" in text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("system", "version", "title"),
    [
        ("centos", "7", "CentOS Linux 7 (Core)"),
        ("rhel", "7.9", "Red Hat Enterprise Linux Server 7.9 (Maipo)"),
        ("amzn", "2", "Amazon Linux 2"),
    ],
)
def test_system_that_is_too_old_is_refused_by_name(
    host: FakeHost, look: Look, system: str, version: str, title: str
) -> None:
    fields = {"ID": system, "VERSION_ID": version, "PRETTY_NAME": title}
    host.files["/etc/os-release"] = "".join(f'{key}="{it}"\n' for key, it in fields.items())
    refused = look(components=["mig"], mig_selected="all-disabled")
    assert f"- {title} is not supported: its systemd is 219" in refused
    host.files["/etc/os-release"] = f'ID="{system}"\nVERSION_ID="9"\n'
    assert look(components=["mig"], mig_selected="all-disabled") == ""
