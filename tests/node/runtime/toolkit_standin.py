# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for NVIDIA's runtime on a node: it tells a version, and writes down each container it is asked for."""

from __future__ import annotations

from gpunode_tool.testing import Node

WRAPPER = "/usr/bin/nvidia-container-runtime"
LOG = "/run/wrapper.log"
SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then echo "NVIDIA Container Runtime version {version}"; exec runc --version; fi
case "$*" in *" create "*) echo created >> {log};; esac
exec runc "$@"
"""


def install_wrapper(node: Node, version: str = "1.19.1") -> None:
    """Put the stand-in where the toolkit has its runtime."""
    text = SCRIPT.format(version=version, log=LOG)
    code = f"import os; open({WRAPPER!r}, 'w').write({text!r}); os.chmod({WRAPPER!r}, 0o755)"
    node.run("python3", "-c", code)


def created(node: Node) -> int:
    """Return how many containers went through the stand-in."""
    return len(node.run("sh", "-c", f"cat {LOG} 2>/dev/null || true").splitlines())
