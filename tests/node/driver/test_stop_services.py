# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that hold GPUs open stop for a change and run again after it, by genuine systemd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import answer, play
from tests.node.holding import HOLD

UNIT = """\
[Unit]
{needs}
[Service]
Type=notify
ExecStart=/usr/bin/python3 -c "{code}"
"""
# The nearest Python above apt is the module.
KILLER = """\
pid=$PPID
until grep -q ^python /proc/$pid/comm; do pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status); done
kill -9 $pid
exit 7
"""
RECORD = "/var/lib/gpu-node/stopped-services.json"
SERVICES = {"monitor": "", "exporter": "Requires=monitor.service\nAfter=monitor.service"}

pytestmark = [pytest.mark.node, pytest.mark.long]


def serve(node: Node) -> None:
    """Have a service with a GPU open, and one that needs it."""
    for name, needs in SERVICES.items():
        text = UNIT.format(needs=needs, code=HOLD.format(gpu=0))
        node.run("sh", "-c", f"cat > /etc/systemd/system/{name}.service <<'END'\n{text}END")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", *SERVICES)


def states(node: Node) -> list[str]:
    return [node.run("systemctl", "is-active", one, check=False).strip() for one in SERVICES]


def pids(node: Node) -> list[str]:
    return [node.run("systemctl", "show", one, "--property=MainPID") for one in SERVICES]


def test_services_are_stopped_for_a_change_and_started_again(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("stop-services", "h100-80", 2)
    node.run("systemctl", "stop", "gpu-device-plugin")
    serve(node)
    before = pids(node)
    wanted = {"nvidia_driver_kernel_modules": "proprietary", "nvidia_driver_reload": "when_idle"}

    refused = play(node, **wanted)
    assert not refused.ok
    assert "(python3, monitor.service)" in refused.message()
    assert "or name it in gpu_nodes_stop_services" in refused.message()
    for name, words in (
        ("monitr", "a service that the node has"),
        ("kubelet", "ends no container"),
    ):
        wrong = play(node, gpu_nodes_stop_services=[name], **wanted)
        assert words in wrong.message()
    assert pids(node) == before

    # The module is killed while the services are stopped.
    killer = "/etc/apt/apt.conf.d/99killer"
    node.run("sh", "-c", f"cat >/root/killer <<'END'\n{KILLER}END")
    node.run("sh", "-c", f"echo 'DPkg::Pre-Invoke {{\"sh /root/killer\";}};' >{killer}")
    killed = play(node, gpu_nodes_stop_services=["monitor"], **wanted)
    assert not killed.ok
    assert states(node) == ["inactive", "inactive"]
    assert "monitor.service" in node.run("cat", RECORD)
    node.run("rm", killer)
    checked = play(node, cmdline="--check")
    assert answer(checked)["steps"][-1]["action"] == "start_services"
    assert play(node).ok
    assert states(node) == ["active", "active"]
    assert node.run("ls", RECORD, check=False) == ""

    # apt fails at work, which no simulation tells.
    broken = "/etc/apt/apt.conf.d/99broken"
    node.run("sh", "-c", f"echo 'DPkg::Pre-Invoke {{\"exit 7\";}};' >{broken}")
    failed = play(node, gpu_nodes_stop_services=["monitor"], **wanted)
    assert "apt-get failed with status 100" in failed.message()
    assert states(node) == ["active", "active"]
    assert node.run("ls", RECORD, check=False) == ""
    node.run("rm", broken)

    done = play(node, gpu_nodes_stop_services=["monitor"], **wanted)
    assert done.ok, done.message()
    found = answer(done)
    assert (found["loaded_module_type"], found["blocked_by"]) == ("proprietary", [])
    actions = [step["action"] for step in found["steps"]]
    assert (actions[0], actions[-1]) == ("stop_services", "start_services")
    assert states(node) == ["active", "active"]
    again = play(node, gpu_nodes_stop_services=["monitor"], **wanted)
    assert (again.ok, again.changed()) == (True, [])
