# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A simulated node of a cluster of its own, with a genuine API server, scheduler and kubelet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpunode_tool.testing import Node

from tests.support.paths import TESTS
from tests.support.waiting import eventually

HERE = Path(__file__).parent
IMAGE_SCRIPT = TESTS / "node/runtime/pod_image.py"
IMAGE = "localhost/tools:latest"
FOLDER = "/opt/kube"  # KUBE_BIN on the node
VENDOR = "nvidia.com/"
SHOW = "env; find /dev -name 'nvidia*'; echo that is all; exec sleep infinity"
KUBECONFIG = "--kubeconfig=/etc/kubernetes/admin.conf"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
LET_IN = f"""\
umask 077
mkdir -p {Path(AUTHORITY).parent}
printf %s "$1" >{AUTHORITY}
printf %s "$2" >/etc/kubernetes/kubelet.conf
"""


class Cluster:
    """A node and its API server, which is on the node too or, where it has one, on another machine."""

    def __init__(self, node: Node, control: Node | None = None) -> None:
        self.node, self.control = node, control or node

    def prepare(self) -> None:
        """Give the node what it has before it joins."""
        self.node.run("python3", "-c", IMAGE_SCRIPT.read_text(), IMAGE)
        _do(self.node, "prepare")

    def join(self) -> None:
        """Start the control plane and the kubelet; returns when the node is Ready."""
        _do(self.control, "serve")
        eventually(lambda: "ok" in self.kubectl("get", "--raw=/readyz"))
        _do(self.control, "control")
        if self.control is not self.node:
            self._let_in()
        _do(self.node, "join")
        eventually(self.ready)
        accounts = ("get", "serviceaccount", "default")
        eventually(lambda: "default" in self.kubectl(*accounts))  # which pods need

    def bring_up(self) -> None:
        """Join the cluster, and run the playbook that brings the node up."""
        self.join()
        up = self.node.play()
        assert up.ok, up.message()

    def _let_in(self) -> None:
        """Give the node the access of its kubelet, as kubeadm makes it."""
        asked = ("kubeconfig", "user", "--config=/root/kubeadm.yaml", "--org=system:nodes")
        name = f"--client-name=system:node:{self.node.name}"
        access = self.control.run(f"{FOLDER}/kubeadm", *asked, name)
        authority = self.control.run("cat", AUTHORITY)
        self.node.run("sh", "-ec", LET_IN, "sh", authority, access)

    def ready(self) -> bool:
        """Return whether the node is Ready."""
        conditions = self.get("node", self.node.name)["status"].get("conditions", ())
        return ("Ready", "True") in [(one["type"], one["status"]) for one in conditions]

    def kubectl(self, *words: str) -> str:
        """Run kubectl as the cluster's administrator."""
        return self.control.run(f"{FOLDER}/kubectl", KUBECONFIG, *words)

    def get(self, *words: str) -> Any:
        """Return an object, or a list of them."""
        found = json.loads(self.kubectl("get", *words, "--output=json"))
        return found.get("items", found)

    def apply(self, what: dict[str, Any]) -> None:
        """Make an object, or change it."""
        script = 'printf %s "$1" | "$0" "$2" apply --filename=-'
        self.control.run("sh", "-c", script, f"{FOLDER}/kubectl", json.dumps(what), KUBECONFIG)

    # --- the node ---

    def allocatable(self) -> dict[str, int]:
        """Return what the API server says of NVIDIA's resources, by their names without the vendor."""
        found = self.get("node", self.node.name)["status"]["allocatable"]
        counts = {name: int(one) for name, one in found.items() if name.startswith(VENDOR)}
        return {name.removeprefix(VENDOR): count for name, count in counts.items() if count}

    def wait(self, **counts: int) -> None:
        """Wait until the node has so much of each resource, where an underscore is a dash."""
        wanted = {name.replace("_", "-"): count for name, count in counts.items()}
        eventually(self.allocatable, wanted)

    def labels(self) -> dict[str, str]:
        """Return the node's labels that NVIDIA's names begin."""
        found: dict[str, str] = self.get("node", self.node.name)["metadata"]["labels"]
        return {name: value for name, value in found.items() if name.startswith(VENDOR)}

    def events(self, reason: str) -> list[dict[str, Any]]:
        """Return the Events with such a reason."""
        found: list[dict[str, Any]] = self.get(
            "events", "--all-namespaces", f"--field-selector=reason={reason}"
        )
        return found

    # --- pods ---

    def begin(self, name: str, **limits: int) -> None:
        """Make a pod that shows what it has got and then sleeps."""
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", SHOW],
            "resources": {"limits": {VENDOR + one: count for one, count in limits.items()}},
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def phase(self, name: str) -> str:
        """Return a pod's phase, with the reason where there is one."""
        status = self.get("pod", name)["status"]
        return " ".join(filter(None, (status["phase"], status.get("reason"))))

    def pod(self, name: str, **limits: int) -> list[str]:
        """Make a pod and return what it shows once it runs."""
        self.begin(name, **limits)
        return self.shown(name)

    def shown(self, name: str) -> list[str]:
        """Return what a pod shows once it runs."""
        eventually(lambda: self.phase(name), "Running")
        eventually(lambda: "that is all" in self.kubectl("logs", name))
        return self.kubectl("logs", name).splitlines()

    def phases(self) -> dict[str, str]:
        """Return the phase of each pod."""
        return {
            one["metadata"]["name"]: " ".join(
                filter(None, (one["status"]["phase"], one["status"].get("reason")))
            )
            for one in self.get("pods")
        }

    def waiting(self) -> set[str]:
        """Return the pods for which the scheduler has looked for a place, and found none."""
        return {
            one["metadata"]["name"]
            for one in self.get("pods")
            for each in one["status"].get("conditions", ())
            if (each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable")
        }

    def restarts(self) -> dict[str, int]:
        """Return how often the container of each pod was started anew."""
        return {
            one["metadata"]["name"]: sum(
                each["restartCount"] for each in one["status"].get("containerStatuses", [])
            )
            for one in self.get("pods")
        }

    def end(self, *names: str) -> None:
        """Remove pods, all where none is named, and wait until they are gone."""
        chosen = names or ("--all",)
        self.kubectl("delete", "pods", *chosen, "--wait=true", "--ignore-not-found", "--now")


def _do(node: Node, doing: str) -> None:
    """Have a part of a cluster made on a node."""
    node.run("python3", "-c", (HERE / "control_plane.py").read_text(), doing, FOLDER)
