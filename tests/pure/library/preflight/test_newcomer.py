# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The wrong inputs that a newcomer tried, as the first look at a fresh node answers them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import (
    node as preflight,
)

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import FakeRoom, Look

HALF = [{"devices": [0, 4], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}]
FIRST = [{**HALF[0], "devices": [0]}]
ALL = [{**HALF[0], "devices": "all"}]
THREE = [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 3}}]
NOTHING = "nothing was changed, as one thing has to be corrected first:"

# The variables, and what the only line says of them: variable, value, what was expected.
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "layout for eight GPUs": (
        {"mig_config": {"half": HALF}},
        "mig_config.half[0].devices: 4 is not valid: expected a GPU of this node: 0 (0000:18:00.0)",
    ),
    "mig_config": ({"mig_config": ["a"]}, "mig_config[0]: 'a' is not valid: expected a mapping"),
    "key of mig_config": (
        {"mig_config": [{"device": "all"}]},
        "mig_config[0]: 'device' is not valid: expected only the keys device-filter, devices,",
    ),
    "mig_selected": (
        {"mig_config": {"half": FIRST}, "mig_selected": "hafl"},
        "mig_selected: 'hafl' is not valid: expected one of: half",
    ),
    "selected from a list": (
        {"mig_config": FIRST, "mig_selected": "half"},
        "mig_selected: 'half' is not valid: expected nothing for the configuration, which is one list",
    ),
    "three halves": (
        {"mig_config": THREE},
        "mig_config[0].mig-devices: H100 80GB: 3 x 3g.40gb do not fit on the GPU: at most 2 do",
    ),
    "profile of another GPU": (
        {"mig_selected": "all-1g.5gb"},
        "mig_selected: 'all-1g.5gb' is not valid: expected one of: all-disabled, all-balanced, all-1g.10gb",
    ),
    "device_plugin_config": (
        {"device_plugin_config": {"flag": {}}},
        "device_plugin_config: unknown key flag: the top level knows flags, gpuNode, imex, resources,"
        " sharing, version (did you mean flags?)",
    ),
    "device_plugin_sharing": (
        {
            "device_plugin_sharing": {
                "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 0}]}
            }
        },
        "device_plugin_sharing: sharing.timeSlicing.resources[0].replicas: 0 is not valid: expected a whole",
    ),
    "device_plugin_configs": (
        {"device_plugin_configs": {"few": {"flags": {"migStrategy": "mixd"}}}},
        "device_plugin_configs.few: flags.migStrategy: 'mixd' is not valid: expected one of none, single, mixed",
    ),
    "relative cdi_path": (
        {"cdi_path": "nvidia.yaml"},
        "cdi_path: 'nvidia.yaml' is not valid: expected an absolute path",
    ),
    "cdi_path that nobody reads": (
        {"cdi_path": "/srv/nvidia.yaml"},
        "cdi_path: '/srv/nvidia.yaml' is not valid: expected a file in a folder that the container runtime"
        " reads, container_runtime_spec_dirs: /etc/cdi, /var/run/cdi",
    ),
    **{
        name: (
            {name: -1, **more},
            f"{name}: -1 is not valid: expected a number of seconds, not negative",
        )
        for name, more in {
            "device_plugin_wait_timeout": {},
            "mig_wait_timeout": {"mig_selected": "all-disabled"},
            "nvidia_driver_lock_timeout": {},
            "mig_reboot_timeout": {},
            "nvidia_driver_reboot_timeout": {},
            "gpu_nodes_cloud_init_timeout": {},
        }.items()
    },
    "version without quotes": (
        {"nvidia_driver_version": 550.10},
        'nvidia_driver_version: 550.1 is not valid: expected a text: quote it, as in nvidia_driver_version: "550.10"',
    ),
    "no repository": (
        {"nvidia_driver_source": "repository"},
        "nvidia_driver_repository: None is not valid: expected its url and its key, or its preset",
    ),
    "runtime's name": (
        {"container_runtime_name": "crio"},
        "container_runtime_name: 'crio' is not valid: expected one of: auto, containerd, docker, cri-o,",
    ),
    "runtime that is not there": (
        {"container_runtime_name": "docker"},
        "docker is not installed: the node has containerd (set container_runtime_name to containerd, or"
        " install docker)",
    ),
    "wheelhouse": (
        {"device_plugin_wheelhouse": "/nowhere"},
        "device_plugin_wheelhouse: '/nowhere' is not valid: expected a folder with wheels on the controller",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_wrong_values_are_refused_before_anything_is_touched(
    row: str, look: Look, host: FakeHost
) -> None:
    variables, expected = ROWS[row]
    files = dict(host.files)
    first, line, step = look(**variables).split("\n")
    assert first == NOTHING
    assert line.startswith(f"- {expected}")
    assert step.startswith("Next step: correct ")
    assert host.files == files


def test_good_values_are_silent(look: Look) -> None:
    good = {"half": [{**HALF[0], "devices": [0, 3]}], "full": ALL}
    assert look() == ""
    assert look(mig_config=good, mig_selected="full", nvidia_driver_version=550) == ""
    assert look(cdi_path="/run/cdi/nvidia.json", mig_wait_timeout="10") == ""


def test_all_that_is_wrong_is_in_one_message(look: Look) -> None:
    said = look(cdi_path="nvidia.yaml", mig_selected="hafl", device_plugin_wait_timeout=-5)
    lines = said.split("\n")
    assert lines[0] == "nothing was changed, as 3 things have to be corrected first:"
    assert [one.partition(":")[0] for one in lines[1:-1]] == [
        "- device_plugin_wait_timeout",
        "- cdi_path",
        "- mig_selected",
    ]
    assert lines[-1] == "Next step: correct these variables, and run again"


@pytest.mark.parametrize("host", [["0x1eb8"]], indirect=True)
def test_mig_on_a_t4(look: Look) -> None:
    layout = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 1}}]
    assert "mig_selected: 'all-1g.5gb' is not valid: expected nothing for this node" in look(
        mig_selected="all-1g.5gb"
    )
    assert "mig_config[0].mig-enabled: True is not valid: expected false" in look(mig_config=layout)
    assert look(mig_selected="all-disabled") == ""


@pytest.mark.parametrize("host", [[]], indirect=True)
def test_a_node_without_a_gpu_is_left_alone(look: Look) -> None:
    assert look(mig_selected="hafl", cdi_path="nvidia.yaml") == ""


def test_a_run_without_become_is_told_to_set_it(look: Look) -> None:
    said = look(root=False, mig_selected="hafl")
    assert "- mig_selected: 'hafl'" in said
    assert (
        "- the modules need root, and run as another user (set become: true, for a user with sudo)"
        in said
    )


def test_an_old_containerd(look: Look, host: FakeHost) -> None:
    # What Debian 12's says of itself: integration/runtime/test_engines.py runs it.
    host.commands["containerd", "--version"] = (
        "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1"
    )
    said = look()
    assert (
        "- containerd 1.6.20 does not support CDI: that came with containerd 1.7 (upgrade containerd: "
        in said
    )
    assert "Docker's repository has containerd.io" in said
    assert look(container_runtime_mode="runtime_class") == ""
    assert look(container_runtime_state="absent") == ""
    assert look(components=["driver", "mig"]) == ""


def test_a_full_disk_and_a_read_only_one(look: Look, room: FakeRoom, host: FakeHost) -> None:
    room.spaces["/opt"] = room.spaces["/"]._replace(device=2, free=40 << 20)
    room.spaces["/etc"] = room.spaces["/"]._replace(device=3, read_only=True)
    said = look(cdi_path="/etc/cdi/nvidia.yaml")
    assert "- /opt/gpu-node: 40 MiB are free, and 300 MiB are needed" in said
    assert "- /etc/gpu-node, /etc/cdi: the file system is read-only (mount it writable)" in said
    host.files["/opt/gpu-node/current/.complete"] = ""
    host.files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  x"
    )
    assert look(container_runtime_state="absent") == ""  # nothing is to be installed any more


def test_a_read_only_folder_of_the_runtime(look: Look, room: FakeRoom, host: FakeHost) -> None:
    host.commands["containerd", "config"] = "version = 2\n"
    room.spaces["/etc/containerd"] = room.spaces["/"]._replace(device=3, read_only=True)
    assert "read-only" in look()
    assert look(container_runtime_state="absent") == ""


def test_a_node_without_a_fitting_python_is_named(look: Look, host: FakeHost) -> None:
    host.commands = {key: value for key, value in host.commands.items() if key[0] != "python3"}
    said = look()
    assert "- no Python from 3.10 to 3.14 on the node: python3 is none (" in said
    assert look(device_plugin_state="absent") == ""
    assert look(device_plugin_python="python3.9") != ""


def test_a_node_for_slurm_needs_a_python_for_its_layout(
    look: Look, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.commands = {key: value for key, value in host.commands.items() if key[0] != "python3"}
    slurm = {"components": ["driver", "mig"], "mig_selected": "all-disabled"}
    assert look(**slurm) == ""  # this Python has what is needed
    monkeypatch.setattr(preflight, "pynvml", None)
    assert "- no Python from 3.10 to 3.14 on the node" in look(**slurm)
    assert look(components=["driver", "mig"]) == ""


def test_apt_without_a_source_is_named(look: Look, host: FakeHost) -> None:
    del host.files["/etc/apt/sources.list.d/debian.sources"]
    assert "- apt has no package source: there is nothing in /etc/apt/sources.list or" in look()
    host.files["/etc/apt/sources.list"] = "deb http://mirror/debian trixie main\n"
    assert look() == ""
    host.commands["dnf",] = ""  # which is there for something else
    assert look() == ""


def test_boot_has_room_for_another_initramfs(look: Look, room: FakeRoom, host: FakeHost) -> None:
    room.spaces["/boot"] = room.spaces["/"]._replace(device=2, free=60 << 20)
    assert look() == ""
    host.files |= {"/boot/initrd.img-6.12": "", "/boot/vmlinuz-6.12": ""}
    room.sizes["/boot/initrd.img-6.12"] = 70 << 20
    assert "- /boot: 60 MiB are free, and 77 MiB are needed: 77 for a new initramfs" in look()
    assert look(nvidia_driver_source="preinstalled") == ""
