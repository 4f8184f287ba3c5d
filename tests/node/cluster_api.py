# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the Kubernetes API beside a simulated node, to which the node's kubeconfig leads."""

from __future__ import annotations

from pathlib import Path

from gpunode_tool.testing import Node

from tests.fakes.kubernetes.standin_api import Api

KUBECONFIG = "/etc/kubernetes/kubelet.conf"


def gateway(node: Node) -> str:
    """The address under which the node sees this machine."""
    lines = node.run("cat", "/proc/net/route").splitlines()
    number = next(line.split()[2] for line in lines if line.split()[1] == "00000000")
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(number)))


def join(node: Node, folder: Path) -> Api:
    """Start an API for the node, and give the node access to it."""
    api = Api(folder, host=gateway(node))
    node.run("mkdir", "-p", KUBECONFIG.rpartition("/")[0])
    node.run("sh", "-c", f"printf %s '{api.kubeconfig.read_text()}' >{KUBECONFIG}")
    return api
