# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pod that is started over CRI to look into a container, and what a container printed.

The messages are those of kubernetes/cri-api, runtime/v1/api.proto, as crictl reads them from files.
"""

from __future__ import annotations

import typing as t

from ..._base.text.json_data import table
from . import containers
from .daemon import Share

NAME = "gpu-node-validate"  # also of containers, images, and namespaces: what a killed run left is found by it
LABEL, VALUE = "gpu.node/validate", "true"  # pods that a killed run left are looked for by it
LOG = "container.log"
CONTAINER, NODE = 1, 2  # of NamespaceMode
KILLED = 128 + 9  # the exit status after SIGKILL
# SELinux's labels are off, as in the containers of podman and Docker.
SELINUX = {"type": "spc_t"}
# A pod in the host's network needs no CNI plugin.
NAMESPACES = {"network": NODE, "pid": CONTAINER}
Message = t.Dict[str, t.Any]


def pod(logs: str) -> Message:
    """Return a PodSandboxConfig; ``logs`` is the folder for the logs of its containers."""
    return {
        "metadata": {"name": NAME, "namespace": NAME, "uid": NAME},
        "labels": {LABEL: VALUE},
        "log_directory": logs,
        "linux": {
            "security_context": {"namespace_options": NAMESPACES, "selinux_options": SELINUX}
        },
    }


def container(
    image: str,
    command: t.Sequence[str],
    python: containers.Python,
    share: t.Optional[Share] = None,
) -> Message:
    """Return the ContainerConfig of a container with all GPUs that runs a command by the machine's Python.

    With a share it is a client of MPS, as a pod with that share is.
    """
    variables = containers.variables(python, share)
    folders = [(path, containers.HOST + path, True) for path in python.folders]
    mounts = share.mounts if share else ()
    shared = [(mount.outside, mount.inside, mount.read_only) for mount in mounts]
    return {
        "metadata": {"name": NAME},
        "image": {"image": image, "user_specified_image": image},
        "command": [*command],
        "envs": [{"key": name, "value": value} for name, value in variables.items()],
        "mounts": [
            {"host_path": outside, "container_path": inside, "readonly": read_only}
            for outside, inside, read_only in (*folders, *shared)
        ],
        "CDI_devices": [{"name": containers.ALL}],
        "log_path": LOG,
        "linux": {
            "security_context": {
                "namespace_options": NAMESPACES,
                "selinux_options": SELINUX,
                "run_as_user": {"value": 0},
                "no_new_privs": True,
            }
        },
    }


def printed(log: str) -> str:
    """Return what a container printed, given its log: each line has a time, a stream, and F, or P if it goes on."""
    text = ""
    for line in log.splitlines():
        _time, _stream, tag, content = (*line.split(" ", 3), "", "", "", "")[:4]
        text += content + ("" if tag.startswith("P") else "\n")
    return text


def has_ended(status: Message) -> bool:
    """Return whether a ContainerStatus is that of a container that has ended."""
    return status.get("state") == "CONTAINER_EXITED"


def was_killed(status: Message) -> bool:
    """Return whether somebody has killed a container, who was not the kernel for lack of memory."""
    return status.get("exitCode") == KILLED and status.get("reason") != "OOMKilled"


def is_ready(answer: Message) -> bool:
    """Return whether the pod of a PodSandboxStatusResponse has not been stopped."""
    return table(answer.get("status")).get("state") == "SANDBOX_READY"


def cause(err: str) -> str:
    """Return why crictl failed: the description of CRI's error without the log line around it."""
    line = (err.strip().splitlines() or [""])[-1]
    description = line.rpartition("desc = ")[2] if "desc = " in line else line
    return description.rstrip('"')
