# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.validate on nodes: what is broken is named, and nothing is left of the containers that it starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from gpunode_tool.testing import Node, Play

from tests.node.runtime.containers import KIND_OF_NODE, RUNTIMES, install, write
from tests.support.waiting import eventually

VALIDATE = "gpu.node.validate"
SPEC = "/etc/cdi/nvidia.yaml"
LAYOUT = "/etc/gpu-node/mig.json"
LEFT = "gpu-node-validate"
RUNC = "#!/usr/bin/python3\n" + (Path(__file__).parent / "runc_on_nvsim.py").read_text()
# podman calls runc where the distribution has it.
PODMAN = '[containers]\nvolumes = ["/run/nvsim:/run/nvsim"]\n'
STORAGE = (
    '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\n'
    'graphroot = "/var/lib/containers/storage"\n'
)

pytestmark = [pytest.mark.node, pytest.mark.long]


def checks(play: Play) -> dict[str, dict[str, Any]]:
    """Return what a run found, by the names of the checks."""
    (found,) = [result for _action, _task, result in play.results() if "failed_checks" in result]
    return {one["name"]: one for one in found["checks"]}


def names(found: dict[str, dict[str, Any]], state: str) -> set[str]:
    return {name for name, one in found.items() if one["state"] == state}


def reach_the_kernel(node: Node) -> None:
    """Let containers that have a GPU reach the simulated kernel."""
    write(node, "/usr/local/sbin/runc", RUNC)
    node.run("chmod", "755", "/usr/local/sbin/runc")


def test_each_thing_that_is_broken_is_named(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("validate", "a100-40", 2, **KIND_OF_NODE)
    reach_the_kernel(node)
    junit, data = tmp_path / "report.xml", tmp_path / "report.json"
    good = node.play(VALIDATE, validate_junit_path=str(junit), validate_json_path=str(data))
    assert good.ok, good.message()
    found = checks(good)
    assert names(found, "failed") == names(found, "warning") == set()
    assert {"containerd: CDI", "containerd: container", "allocatable", "holds", "MIG"} <= names(
        found, "passed"
    )
    assert f"{node.name}: ready, 2 GPUs, 2 MIG devices, 3 devices advertised" in good.message()
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("name"), suite.get("failures")) == (node.name, "0")
    assert len(suite) == len(found)
    assert json.loads(data.read_text())["nodes"][node.name]["ready"] is True

    text = node.run("cat", SPEC)
    stale = json.loads(text)
    mount = stale["containerEdits"]["mounts"].pop()["hostPath"]
    layout = node.run("cat", LAYOUT)
    faults: list[tuple[tuple[tuple[str, ...], ...], set[str], str, tuple[tuple[str, ...], ...]]] = [
        (
            (("systemctl", "stop", "gpu-node-labels.service"),),
            {"labels", "services"},
            "gpu-node-labels.service is inactive",
            (("systemctl", "start", "gpu-node-labels.service"),),
        ),
        (
            (("apt-mark", "unhold", "nvidia-smi"),),
            {"holds"},
            "an upgrade would take nvidia-smi",
            (("apt-mark", "hold", "nvidia-smi"),),
        ),
        (
            (("systemctl", "disable", "gpu-device-plugin.service"),),
            {"services"},
            "gpu-device-plugin.service is disabled: it does not start at boot",
            (("systemctl", "enable", "gpu-device-plugin.service"),),
        ),
        (
            (
                ("systemctl", "stop", "gpu-cdi.path"),
                ("python3", "-c", f"open({SPEC!r}, 'w').write({json.dumps(stale)!r})"),
            ),
            {"CDI specification", "services"},
            f"lacks the mount {mount}",
            (("systemctl", "start", "gpu-cdi.service", "gpu-cdi.path"),),
        ),
        (
            (
                (
                    "sed",
                    "-i",
                    "s/enable_cdi = true/enable_cdi = false/",
                    "/etc/containerd/config.toml",
                ),
            ),
            {"containerd: CDI"},
            "enable_cdi is off",
            (
                (
                    "sed",
                    "-i",
                    "s/enable_cdi = false/enable_cdi = true/",
                    "/etc/containerd/config.toml",
                ),
                ("systemctl", "restart", "containerd"),
            ),
        ),
        (
            (("python3", "-c", f"open({LAYOUT!r}, 'w').write({layout.replace('2', '3')!r})"),),
            {"MIG"},
            "the GPUs are not in the layout half",
            (("python3", "-c", f"open({LAYOUT!r}, 'w').write({layout!r})"),),
        ),
        (
            (("systemctl", "kill", "--signal=STOP", "kubelet.service"),),
            {"allocatable"},
            "what the kubelet can allocate is not known",
            (("systemctl", "kill", "--signal=CONT", "kubelet.service"),),
        ),
    ]
    for breaking, failed, told, mending in faults:
        for words in breaking:
            node.run(*words)
        broken = node.play(VALIDATE)
        assert not broken.ok, failed
        assert names(checks(broken), "failed") == failed, broken.message()
        assert told in broken.message()
        for words in mending:
            node.run(*words)

    # A node that has not joined its cluster is said to be so, and is red where that is asked for.
    node.run("systemctl", "stop", "kubelet.service")
    eventually(lambda: node.status()["resources"]["nvidia.com/gpu"]["registered"], False)
    alone = node.play(VALIDATE)
    assert alone.ok, alone.message()
    assert "registration: no kubelet has registered the GPUs yet" in alone.message()
    required = node.play(VALIDATE, gpu_nodes_require_kubelet=True)
    assert names(checks(required), "failed") == {"registration"}
    node.run("systemctl", "start", "kubelet.service")
    eventually(node.allocatable, {"gpu": 1, "mig-1g.5gb": 2})

    eventually(lambda: node.run("cat", SPEC) == text)
    last = node.play(VALIDATE)
    assert last.ok, last.message()
    assert names(checks(last), "warning") == set()
    assert "gpu-node-validate" not in node.run("ctr", "namespaces", "list")
    assert "validate\n" not in node.run("ls", "/run/gpu-node")


def test_containers_of_every_engine_open_the_gpus_and_are_gone(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("validate-engines", "a100-40", 2, **KIND_OF_NODE)
    install(node, "docker.io", "docker-cli", "podman")
    reach_the_kernel(node)
    node.run("mkdir", "-p", "/etc/docker", "/etc/containers")
    write(node, "/etc/docker/daemon.json", '{"storage-driver": "vfs"}')
    write(node, "/etc/containers/storage.conf", STORAGE)
    node.run("systemctl", "restart", "docker.service")

    before = checks(node.play(VALIDATE))
    assert before["docker: CDI"]["cause"] == (
        "gpu.node has not set up CDI in it: features.cdi is off"
    )
    assert "docker: container" not in before
    # What of podman's containers reaches no kernel says nothing of podman.
    assert before["podman: container"]["cause"] == "the kernel has no driver behind /dev/nvidiactl"

    # What a run that was killed has left is in nobody's way.
    node.run("sh", "-c", f"tar -c -T /dev/null | docker import - {LEFT}")
    node.run("docker", "create", f"--name={LEFT}", LEFT, "true")
    write(node, "/etc/containers/containers.conf", PODMAN)
    assert node.play(RUNTIMES, container_runtime_name="auto").ok
    good = node.play(VALIDATE)
    assert good.ok, good.message()
    for engine in ("containerd", "docker", "podman"):
        assert checks(good)[f"{engine}: container"]["state"] == "passed"
    for words in (("docker", "ps", "-aq"), ("docker", "images", "-q"), ("podman", "ps", "-aq")):
        assert node.run(*words) == ""
    assert "gpu-node-validate" not in node.run("ctr", "namespaces", "list")
