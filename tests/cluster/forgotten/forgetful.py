# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine kubelet that loses what it keeps on disk, and the device nodes that containers have all the while."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.cluster.cluster import IMAGE, VENDOR

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

DEVICES = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
CLAIMS = "/var/lib/kubelet/dra_manager_state"
PROGRAM = "/opt/gpu-node/bin/gpu-plugin"
UNKNOWN = "of which the kubelet does not know"
# What each container of a pod has of GPUs, read beside kubelet and product: by pod and container, its device nodes.
LOOK = """\
import json, os, re

found = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    root = f"/proc/{pid}/root/dev"
    try:
        with open(f"/proc/{pid}/cgroup") as stream:
            match = re.search(r"/pod([0-9a-f-]{36})/([0-9a-f]{64})", stream.read())
        if not match or os.path.samefile(f"/proc/{pid}/root", "/"):  # runc, about to start one
            continue
        names = {one for one in os.listdir(root) if re.fullmatch(r"nvidia[0-9]+", one)}
        caps = f"{root}/nvidia-caps"
        names |= {one for one in (os.listdir(caps) if os.path.isdir(caps) else ()) if one.startswith("nvidia-cap")}
    except OSError:
        continue
    if names:
        found.setdefault("/".join(match.groups()), set()).update(names)
print(json.dumps({key: sorted(names) for key, names in found.items()}))
"""


def forget(cluster: Cluster, path: str, *, kill: bool = False) -> None:
    """Remove a file of the kubelet's while it is stopped or killed, and start it again."""
    if kill:
        cluster.node.run("systemctl", "kill", "--signal=KILL", "kubelet")
    cluster.node.run("systemctl", "stop", "kubelet")
    cluster.node.run("rm", path)
    cluster.node.run("systemctl", "start", "kubelet")


def denied(cluster: Cluster, *pods: str) -> bool:
    """Return whether the kubelet that runs now has ended one of these pods when it started.

    Without its record of a pod's devices it does, where its device plugins register later than it counts devices.
    """
    pid = cluster.node.run("systemctl", "show", "--property=MainPID", "--value", "kubelet").strip()
    log = cluster.node.run("journalctl", f"_PID={pid}", "--output=cat")
    lines = [line for line in log.splitlines() if "Pod admission denied" in line]
    return any(f'pod="default/{pod}"' in line for line in lines for pod in pods)


def has_pods(cluster: Cluster) -> bool:
    """Return whether the kubelet has been told of all pods of its node, and so has decided about each."""
    raw = f"--raw=/api/v1/nodes/{cluster.node.name}/proxy/pods"
    items = json.loads(cluster.kubectl("get", raw))["items"] or ()
    told = {one["metadata"]["uid"] for one in items}
    bound = [one for one in cluster.get("pods") if one["spec"].get("nodeName")]
    return told >= {one["metadata"]["uid"] for one in bound}


def nodes(cluster: Cluster) -> dict[str, list[str]]:
    """Return the device nodes of GPUs and MIG devices that each container sees, by pod's UID and container's id."""
    found: dict[str, list[str]] = json.loads(cluster.node.run("python3", "-c", LOOK))
    return found


def shared(found: dict[str, list[str]]) -> list[str]:
    """Return the devices that more than one container has; a MIG device is its capabilities, not its GPU's node."""
    owned: Counter[str] = Counter()
    for names in found.values():
        capabilities = [one for one in names if "cap" in one]
        owned.update(capabilities or names)
    return sorted(name for name, count in owned.items() if count > 1)


def container(name: str, limits: dict[str, int], **fields: Any) -> dict[str, Any]:
    """Return a container that sleeps."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {VENDOR + resource: count for resource, count in limits.items()}},
        **fields,
    }


def begin(cluster: Cluster, name: str, *containers: dict[str, int], **fields: Any) -> None:
    """Make a pod of containers with such limits."""
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container(f"c{number}", limits) for number, limits in enumerate(containers)],
        **fields,
    }
    metadata = {"name": name}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def uids(cluster: Cluster) -> dict[str, str]:
    """Return the names of pods by their UIDs."""
    return {one["metadata"]["uid"]: one["metadata"]["name"] for one in cluster.get("pods")}


def running(cluster: Cluster) -> dict[str, list[list[str]]]:
    """Return the device nodes of each container of each pod, by the pod's name."""
    names = uids(cluster)
    found: dict[str, list[list[str]]] = {}
    for key, devices in sorted(nodes(cluster).items()):
        uid = key.partition("/")[0]
        found.setdefault(names.get(uid, uid), []).append(devices)
    return {name: sorted(devices) for name, devices in found.items()}


def kill(cluster: Cluster, pod: str, name: str) -> None:
    """Kill the process of a pod's container, as a crash would."""
    status = cluster.get("pod", pod)["status"]["containerStatuses"]
    (identity,) = [one["containerID"].rpartition("/")[2] for one in status if one["name"] == name]
    script = 'for one in $(grep -l "$0" /proc/[0-9]*/cgroup); do kill -9 "$(echo "$one" | cut -d/ -f3)"; done'
    cluster.node.run("sh", "-c", script, identity)
