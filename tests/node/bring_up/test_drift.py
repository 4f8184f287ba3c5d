# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What somebody does to a node by hand is in a check's output, and a run mends it or says who has to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node, Play

pytestmark = [pytest.mark.node, pytest.mark.long]

CONFIG = "/etc/containerd/config.toml"
RECORD = "/var/lib/gpu-node/nvidia_driver.json"
DROP_IN = "/etc/systemd/system/gpu-device-plugin.service.d/mine.conf"
BUS = "/sys/bus/pci/devices"


@dataclasses.dataclass(frozen=True)
class Drift:
    """What is done by hand, what a check says of it, and what undoes it where a run does not (else nothing)."""

    by_hand: str
    told: str
    undone: str = ""
    fails: str = ""  # what a run ends with, where it does


DRIFTS = {
    "a file that the runtime has not read": Drift(
        f"touch {CONFIG}",
        f"would restart containerd.service: {CONFIG} was changed after it had started",
    ),
    "a record that is gone": Drift(
        f"mv {RECORD} /root/",
        f"{RECORD} is not there, and",
        f"mv /root/nvidia_driver.json {RECORD}",
    ),
    "a drop-in that weakens a unit": Drift(
        f"mkdir -p {DROP_IN.rpartition('/')[0]} && printf '[Service]\\nProtectSystem=no\\n' >{DROP_IN}",
        f"{DROP_IN} overrules what gpu-device-plugin.service needs",
        f"rm {DROP_IN}",
    ),
    "a device node that is closed": Drift(
        "chmod 600 /dev/nvidia0",
        "/dev/nvidia0 has mode 0600 and owner 0:0, not 0666 and 0:0",
        "chmod 666 /dev/nvidia0",
        "device nodes: /dev/nvidia0 has mode 0600",
    ),
    "a GPU that is gone": Drift(
        f"mv {BUS}/$(ls {BUS} | tail -n 1) /run/",
        "the node had 2 GPUs at its last bring-up, and 0000:",
        f"mv /run/0000:* {BUS}/",
        "at its last bring-up, and 0000:",
    ),
    "all GPUs gone": Drift(
        f"mv {BUS}/* /run/",
        "has no NVIDIA GPU on its PCI bus, and had 0000:",
        f"mv /run/0000:* {BUS}/",
        "has no NVIDIA GPU on its PCI bus, and had 0000:",
    ),
}


def said(play: Play) -> str:
    return " ".join(str(result) for _action, _task, result in play.results())


def test_what_is_done_by_hand_is_seen(brought_up: Callable[..., Node]) -> None:
    node = brought_up("drift", "t4", 2, node_labels_output="file")
    quiet = node.play(cmdline="--check")
    assert (quiet.ok, quiet.changed()) == (True, [])
    for name, drift in DRIFTS.items():
        assert drift.told not in said(quiet), name
        node.run("sh", "-c", drift.by_hand)
        assert drift.told in said(node.play(cmdline="--check")), name
        run = node.play()
        assert run.ok == (not drift.fails), f"{name}: {run.message()}"
        assert drift.fails in said(run), name
        if drift.undone:
            node.run("sh", "-c", drift.undone)
        again = node.play()
        assert (again.ok, again.changed()) == (True, []), f"{name}: {again.message()}"
    node.run("sh", "-c", DRIFTS["all GPUs gone"].by_hand)
    report = node.play("gpu.node.report", report_fail_on_drift=True, report_html_path="")
    assert "missing GPU: 0000:" in report.message()
