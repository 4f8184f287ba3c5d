# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has a GPU is named with what runs it, and with the way to stop that."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet import pods
from ansible_collections.gpu.node.plugins.module_utils._node.users.holders import advice
from ansible_collections.gpu.node.plugins.module_utils._node.users.users import (
    Container,
    User,
    container_of,
    docker_name,
    podman_name,
    unit_of,
)

ID = "0123456789abcdef" * 4
UID = "11111111-2222-3333-4444-555555555555"
SCOPED = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "unit", "engine", "container"),
    [
        ("0::/system.slice/nvidia-dcgm.service", "nvidia-dcgm.service", "", False),
        ("12:devices:/system.slice/nvsm-core.service\n", "nvsm-core.service", "", False),
        ("0::/system.slice/system-job.slice/job@1.service", "job@1.service", "", False),
        ("0::/gpu.slice/ollama.service/main", "ollama.service", "", False),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/x.service", "", "", False),
        ("0::/user.slice/user-1000.slice/session-3.scope", "", "", False),
        (f"0::/system.slice/docker-{ID}.scope", "", "docker", True),
        (f"11:memory:/docker/{ID}", "", "", True),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "", "podman", True),
        (f"9:name=systemd:/libpod_parent/libpod-{ID}/init.scope", "", "podman", True),
        (f"0::/machine.slice/libpod-conmon-{ID}.scope", "", "", False),
        (
            f"0::/kubepods.slice/kubepods-pod{SCOPED}.slice/cri-containerd-{ID}.scope",
            "",
            "",
            True,
        ),
        (
            f"0::/system.slice/containerd.service/kubepods-besteffort-pod{SCOPED}.slice:cri-containerd:{ID}",
            "containerd.service",
            "",
            True,
        ),
        (f"0::/default/{ID}/system.slice/nvidia-dcgm.service", "", "", True),
        ("0::/", "", "", False),
    ],
)
def test_what_runs_a_process(path: str, unit: str, engine: str, container: bool) -> None:
    where = pods.paths(path, "0::/init.scope\n")
    assert unit_of(where) == unit
    found = container_of(where)
    assert (found is not None) is container
    assert found is None or (found.id, found.engine) == (ID, engine)


def test_names_of_containers_are_read_from_docker_and_podman() -> None:
    assert docker_name(json.dumps({"ID": ID, "Name": "/exporter"})) == "exporter"
    listed = json.dumps([{"id": "other", "names": ["x"]}, {"id": ID, "names": ["web"]}])
    assert podman_name(listed, ID) == "web"
    for text in (None, "", "[", "{}", "[1]", '{"Name": []}'):
        assert podman_name(text, ID) == ""
    for text in (None, "", "[", "[]", "1"):
        assert docker_name(text) == ""


@pytest.mark.parametrize(
    ("user", "words", "way"),
    [
        (
            User(812, "nv-hostengine", "nvidia-dcgm.service"),
            "812 (nv-hostengine, nvidia-dcgm.service)",
            "systemctl stop nvidia-dcgm.service, or name it in gpu_nodes_stop_services",
        ),
        (User(7, "nvsm_core", "nvsm-core.service"), "7 (nvsm_core", "systemctl stop nvsm.service,"),
        (
            User(7, "nvidia-imex", "nvidia-imex.service"),
            "7 (",
            "systemctl stop nvidia-imex.service",
        ),
        (User(7, "nvidia-powerd", "nvidia-powerd.service"), "7 (", "stop nvidia-powerd.service"),
        (User(7, "Xorg", "gdm3.service"), "7 (Xorg, gdm3.service)", "isolate multi-user.target"),
        (User(7, "gnome-shell"), "7 (gnome-shell)", "isolate multi-user.target"),
        (User(7, "nv-hostengine"), "7 (nv-hostengine)", "nv-hostengine -t"),
        (User(7, "nvidia-cuda-mps"), "7 (", "echo quit | nvidia-cuda-mps-control"),
        (
            User(7, "gpu-plugin", "gpu-device-plugin.service"),
            "7 (gpu-plugin, gpu-device-plugin.service)",
            "the playbook gpu.node.upgrade_driver stops and starts it",
        ),
        (
            User(7, "gpu-plugin", "gpu-dra.service"),
            "7 (gpu-plugin, gpu-dra.service)",
            "gpu-dra.service advertises the GPUs: the playbook gpu.node.upgrade_driver stops and",
        ),
        (
            User(7, "dcgm-exporter", "", Container(ID, "docker", "exporter")),
            "7 (dcgm-exporter, container exporter)",
            "docker stop exporter",
        ),
        (
            User(7, "x", "", Container(ID)),
            "container 0123456789ab",
            "end the container 0123456789ab",
        ),
        (
            User(7, "dcgm-exporter", pod="gpu-operator/nvidia-dcgm-exporter-x7k2p"),
            "7 (dcgm-exporter, pod gpu-operator/nvidia-dcgm-exporter-x7k2p)",
            "nvidia.com/gpu.deploy.dcgm-exporter=false",
        ),
        (
            User(7, "python3", pod="gpu-operator/gpu-feature-discovery-abc"),
            "pod gpu-operator/gpu-feature-discovery-abc",
            "nvidia.com/gpu.deploy.gpu-feature-discovery=false",
        ),
        (User(7, "python3", pod="ml/train"), "7 (python3, pod ml/train)", "drain the node of its"),
        (User(7, "python3"), "7 (python3)", ""),
    ],
)
def test_holder_is_named_with_the_way_to_stop_it(user: User, words: str, way: str) -> None:
    assert words in str(user)
    assert way in advice([user])
    assert bool(advice([user])) is bool(way)


def test_each_way_is_told_once() -> None:
    users = [User(7, "a", "a.service"), User(8, "a", "a.service"), User(9, "b", "b.service")]
    assert advice(users).startswith("systemctl stop a.service b.service, or name it in")
    assert "dcgm_state" not in advice(users)
    several = [User(1, "x", pod="n/nvidia-dcgm-exporter-1"), User(2, "x", pod="n/nvidia-dcgm-2")]
    assert advice(several).count("nvidia.com/gpu.deploy.") == 2


def test_pods_that_the_kubelet_names_are_drained() -> None:
    assert advice([], ["pod ml/idle (container main) with nvidia.com/gpu GPU-1"]) == (
        "drain the node of its pods"
    )


def test_names_of_containers_steer_no_terminal() -> None:
    assert "\x1b" not in str(User(7, "x", "", Container(ID, "docker", "a\x1b[31m")))
