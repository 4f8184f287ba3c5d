# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node in service gets another MIG layout, and keeps it over a reboot."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import KIND_OF_NODE
from tests.support.waiting import eventually

PLAYBOOK = "gpu.node.mig"
HOOK = """\
---
- name: Write down that the hook ran
  ansible.builtin.shell: echo {word} >> /root/hooks
  changed_when: true
"""

pytestmark = pytest.mark.node


def layout(**profiles: int) -> dict[str, Any]:
    devices = {name.replace("_", "."): count for name, count in profiles.items()}
    whole = {"devices": [0], "mig-enabled": False}
    cut = {"devices": [1], "mig-enabled": True, "mig-devices": devices}
    return {"version": "v1", "mig-configs": {"cut": [whole, cut]}}


def cdi_names(node: Node) -> set[str]:
    """Return the names of the devices that the CDI specification has beside GPUs and all."""
    found = json.loads(node.run("cat", "/etc/cdi/nvidia.yaml"))["devices"]
    return {one["name"] for one in found if one["name"].startswith("MIG-")}


def mig_uuids(node: Node) -> set[str]:
    return set(node.status()["mig_uuids"])


def admit(node: Node, pod: str, **requests: int) -> set[str]:
    """Give an idle pod what it asks for, and return the ids of its devices."""
    words = [f"--request=nvidia.com/{name.replace('_', '.')}={n}" for name, n in requests.items()]
    given = json.loads(node.run("standin-kubelet", "admit", pod, *words, "--json"))["devices"]
    return {one for ids in given.values() for one in ids}


def refusal(node: Node, playbook: str = PLAYBOOK, **variables: Any) -> str:
    """Run a playbook that must fail, and return what it says."""
    refused = node.play(playbook, **variables)
    assert not refused.ok
    return refused.message()


def property_of(node: Node, unit: str, name: str) -> str:
    return node.run("systemctl", "show", unit, f"--property={name}", "--value").strip()


def ready(node: Node, unit: str) -> int:
    """Return when a unit said last that what comes after it may begin."""
    return int(property_of(node, unit, "ActiveEnterTimestampMonotonic"))


def begun(node: Node, unit: str) -> int:
    """Return when a unit was started last."""
    return int(property_of(node, unit, "InactiveExitTimestampMonotonic"))


def test_layout_is_changed_in_service_and_survives_the_reboot(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("mig", "a100-40", 2, **KIND_OF_NODE)
    hooks = {}
    for word in ("before", "after"):
        path = tmp_path / f"{word}.yml"
        path.write_text(HOOK.format(word=word))
        hooks[f"mig_hooks_{word}"] = [str(path)]
    kept, wanted = mig_uuids(node), layout(**{"1g.5gb": 3, "3g.20gb": 1})
    assert len(kept) == 2

    killed = node.play(PLAYBOOK, cut_off_at="Partition the GPUs", mig_config=wanted, **hooks)
    assert killed.killed
    assert node.run("cat", "/root/hooks").split() == ["before"]
    assert mig_uuids(node) == kept
    resumed = node.play(PLAYBOOK, mig_config=wanted, **hooks)
    assert resumed.ok, resumed.message()
    assert node.run("cat", "/root/hooks").split() == ["before", "before", "after"]
    assert node.allocatable() == {"gpu": 1, "mig-1g.5gb": 3, "mig-3g.20gb": 1}
    assert kept < mig_uuids(node)
    assert cdi_names(node) == mig_uuids(node)

    again = node.play(PLAYBOOK, mig_config=wanted, **hooks)
    assert again.ok, again.message()
    assert again.changed() == []
    assert len(again.module_calls()) <= 3, again.module_calls()

    node.reboot()
    eventually(lambda: property_of(node, "gpu-mig.service", "ActiveState"), "active")
    eventually(node.allocatable, {"gpu": 1, "mig-1g.5gb": 3, "mig-3g.20gb": 1})
    for unit in ("kubelet.service", "containerd.service", "gpu-device-plugin.service"):
        assert ready(node, "gpu-mig.service") <= begun(node, unit)


@pytest.mark.long
def test_a_boot_goes_on_whatever_keeps_the_layout_away(brought_up: Callable[..., Node]) -> None:
    """A layout that fits no longer, a device node that comes late, and a driver that hangs."""
    node = brought_up("mig-boot", "h100-80", 2)
    wanted = layout(**{"1g.10gb": 3, "3g.40gb": 1})
    up = node.play(PLAYBOOK, mig_config=wanted)
    assert up.ok, up.message()
    node.run("sed", "-i", "s/3g.40gb/7g.80gb/", "/etc/gpu-node/mig.json")
    node.reboot()
    eventually(lambda: property_of(node, "gpu-mig.service", "ActiveState"), "failed")
    eventually(lambda: property_of(node, "kubelet.service", "ActiveState"), "active")
    eventually(node.allocatable, {"gpu": 2})
    refused = node.play("gpu.node.validate")
    assert not refused.ok
    assert "gpu-mig.service failed at boot" in refused.message()
    assert "does not fit" in refused.message()
    mended = node.play(PLAYBOOK, mig_config=wanted)
    assert mended.ok, mended.message()
    assert node.play("gpu.node.validate").ok
    assert node.allocatable() == {"gpu": 1, "mig-1g.10gb": 3, "mig-3g.40gb": 1}

    # A device node that comes has the specification made again.
    def runs() -> str:
        return property_of(node, "gpu-cdi.service", "InvocationID")

    eventually(lambda: property_of(node, "gpu-cdi.path", "SubState"), "waiting")
    before = runs()
    node.run("mknod", "/dev/nvidia-later", "c", "195", "99")
    eventually(lambda: runs() != before, True)
    node.run("rm", "/dev/nvidia-later")

    # A driver that hangs keeps what comes after waiting, as long as the units' patience is.
    units = ("gpu-mig.service", "gpu-cdi.service", "kubelet.service")
    for unit in units[:2]:
        node.run("sed", "-i", "s/--patience [0-9]*/--patience 1/", f"/etc/systemd/system/{unit}")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "stop", "gpu-cdi.path", *units)
    node.run("/opt/nvsim/bin/nvsimctl", "hang", "*")
    node.run("systemctl", "start", *units)
    assert property_of(node, "gpu-mig.service", "SubState") == "running"
    for first, second in pairwise(units):
        assert ready(node, first) <= begun(node, second)
    node.run("/opt/nvsim/bin/nvsimctl", "clear-faults")
    eventually(lambda: property_of(node, "gpu-mig.service", "SubState"), "exited")
    eventually(lambda: property_of(node, "gpu-cdi.service", "ActiveState"), "inactive")


@pytest.mark.long
def test_idle_pods_keep_their_mig_devices(brought_up: Callable[..., Node]) -> None:
    """The kubelet has given these devices away, though no process has one open."""
    node = brought_up("mig-idle", "h100-80", 2)
    up = node.play(PLAYBOOK, mig_config=layout(**{"1g.10gb": 2, "3g.40gb": 1}))
    assert up.ok, up.message()
    eventually(node.allocatable, {"gpu": 1, "mig-1g.10gb": 2, "mig-3g.40gb": 1})
    (small,) = admit(node, "idle", **{"mig-1g.10gb": 1})
    (whole,) = admit(node, "resting", gpu=1)
    words = f"pod default/idle (container main) with nvidia.com/mig-1g.10gb {small}"
    before = mig_uuids(node)

    text = refusal(node, mig_config=layout(**{"7g.80gb": 1}))
    assert words in text
    assert "mig-1g.10gb at placement" not in text  # it is called by its profile
    assert mig_uuids(node) == before
    other = {"version": "v1", "mig-configs": {"off": [{"devices": "all", "mig-enabled": False}]}}
    assert words in refusal(node, mig_config=other)
    both = {"version": "v1", "mig-configs": {"on": [{"devices": [0], "mig-enabled": True}]}}
    both["mig-configs"]["on"][0]["mig-devices"] = {"7g.80gb": 1}
    assert f"pod default/resting (container main) with nvidia.com/gpu {whole}" in refusal(
        node, mig_config=both
    )
    for playbook in ("gpu.node.teardown", "gpu.node.upgrade_driver"):
        text = refusal(node, playbook, nvidia_driver_kernel_modules="proprietary")
        assert words in text, playbook
        assert mig_uuids(node) == before
        eventually(node.allocatable, {"gpu": 1, "mig-1g.10gb": 2, "mig-3g.40gb": 1})

    more = node.play(PLAYBOOK, mig_config=layout(**{"1g.10gb": 3, "3g.40gb": 1}))
    assert more.ok, more.message()
    assert before < mig_uuids(node)

    # Somebody takes it all the same.
    node.run("sh", "-c", "nvidia-smi mig -i 1 -dci && nvidia-smi mig -i 1 -dgi")
    eventually(lambda: [one["device"] for one in node.status()["vanished"]], [small])
    assert "default/idle" in node.run("journalctl", "--unit=gpu-device-plugin", "--output=cat")
    node.run("standin-kubelet", "release", "idle")
    done = node.play(PLAYBOOK, mig_config=layout(**{"7g.80gb": 1}))
    assert done.ok, done.message()
    assert node.allocatable() == {"gpu": 1, "mig-7g.80gb": 1}

    (large,) = admit(node, "idle", **{"mig-7g.80gb": 1})
    first = layout(**{"1g.10gb": 2, "3g.40gb": 1})
    taken = node.play(PLAYBOOK, mig_config=first, gpu_nodes_on_allocated="ignore")
    assert taken.ok, taken.message()
    assert large not in mig_uuids(node)
