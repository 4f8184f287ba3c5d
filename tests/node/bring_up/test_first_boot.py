# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node at its first boot: genuine cloud-init is at work, genuine needrestart wants to restart services, no udev rule
makes device nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

pytestmark = pytest.mark.node

PREPARE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends cloud-init needrestart dbus netcat-openbsd
mkdir -p /etc/nvsim /var/lib/cloud/seed/nocloud
touch /etc/nvsim/no-udev
# A run of cloud-init whose last stage ends when it is told to.
echo 'instance-id: one' >/var/lib/cloud/seed/nocloud/meta-data
cat >/var/lib/cloud/seed/nocloud/user-data <<END
#cloud-config
runcmd:
  - until [ -e /run/go ]; do sleep 1; done
END
cat >/etc/cloud/cloud.cfg.d/99-test.cfg <<END
network: {config: disabled}
datasource_list: [NoCloud, None]
END
echo 'f /run/go' >/etc/tmpfiles.d/go.conf
"""
# cloud-init runs once more as it did at the boot, in its order.
START = """
set -e
# A service whose program was replaced, as by an upgrade; this needrestart restarts without being asked.
cp /bin/sleep /usr/bin/victim
systemd-run --quiet --service-type=exec --unit=victim /usr/bin/victim infinity
cp /bin/sleep /usr/bin/victim.new
mv /usr/bin/victim.new /usr/bin/victim
echo '$nrconf{restart} = q(a);' >/etc/needrestart/conf.d/auto.conf
rm /etc/tmpfiles.d/go.conf /run/go
cloud-init clean
for one in cloud-init-main cloud-init-local cloud-init-network cloud-config; do systemctl restart $one; done
systemctl restart --no-block cloud-final
"""
NODES = ("nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-uvm-tools")
CDI = "/etc/cdi/nvidia.yaml"


def nodes(node: Node) -> dict[str, str]:
    """Return type, major and minor of the device nodes of NVIDIA's that are there."""
    lines = node.run("sh", "-c", "cd /dev; stat -c '%n %F %Hr:%Lr' nvidia[0-9cu-]*").splitlines()
    return {one.split()[0]: one.rsplit(" ", 1)[1] for one in lines if "character" in one}


def test_a_node_at_its_first_boot_is_brought_up_once_cloud_init_is_done(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("first-boot", "a100-40", 1)
    node.run("sh", "-c", PREPARE)
    node.reboot()
    node.run("sh", "-c", START)
    victim = node.run("systemctl", "show", "victim", "--property=MainPID")
    eventually(lambda: "status: running" in node.run("cloud-init", "status", check=False))
    before = node.run("dpkg", "-l")

    waiting = node.play(gpu_nodes_cloud_init_timeout=1)
    assert not waiting.ok
    assert "cloud-init is still at work after 1 s" in waiting.message()
    assert "gpu_nodes_cloud_init_timeout" in waiting.message()
    assert node.run("dpkg", "-l") == before

    # cloud-init is waited for, and nobody's service is restarted along with the installation.
    up = node.play_while(lambda: node.run("touch", "/run/go"))
    assert up.ok, up.message()
    done, made = node.run(
        "sh", "-c", "stat -c %Y /run/cloud-init/result.json /opt/gpu-node/releases/*/.complete"
    ).split()
    assert int(done) <= int(made)
    assert node.run("systemctl", "show", "victim", "--property=MainPID") == victim
    assert "victim.service" in node.run("needrestart", "-b", "-r", "l")

    # The driver's packages have no udev rules: its nodes are there all the same, and in the specification.
    there = nodes(node)
    assert set(NODES) <= set(there), there
    devices = node.run("cat", "/proc/devices")
    major = next(line.split()[0] for line in devices.splitlines() if line.endswith(" nvidia-uvm"))
    assert (there["nvidia-uvm"], there["nvidia-uvm-tools"]) == (f"{major}:0", f"{major}:1")
    assert '"/dev/nvidia-uvm"' in node.run("cat", CDI)
    # And after a boot, before containers start.
    node.run("rm", CDI)
    node.reboot()
    eventually(lambda: set(NODES) <= set(nodes(node)))
    eventually(lambda: '"/dev/nvidia-uvm"' in node.run("cat", CDI))
    assert node.run("systemctl", "is-active", "gpu-device-nodes").strip() == "active"
    again = node.play(gpu_nodes_cloud_init_timeout=600)
    assert again.ok, again.message()
    assert again.changed() == []
    assert len(again.module_calls()) == 1, again.module_calls()
