# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The messages that pages quote of what can go wrong, and the texts that the code has."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from tests.support.paths import REPOSITORY, SOURCES

ROOT = REPOSITORY
PAGE = ROOT / "docs/troubleshooting.md"
PAGES = [one for one in sorted((ROOT / "docs").rglob("*.md")) if "evidence" not in one.parts]
WRONG = "\n## What can go wrong\n"
CODE = (ROOT / "plugins", *SOURCES)
TASKS = (ROOT / "roles", ROOT / "playbooks", ROOT / "files/kubernetes")
# What the demo says before it and of itself, in a clone alone.
DEMO = (ROOT / "tests/setup-host", ROOT / "tests/demo/demo.py")
# What Kubernetes, container runtimes, shells and Ansible say; nothing of the collection has it.
OTHERS = {
    "no hosts matched",
    "unresolvable CDI devices",
    "Insufficient nvidia.com/gpu",
    "UnexpectedAdmissionError",
    "CreateContainerError",
    "nvidia-smi: command not found",
}
# What Slurm, Ansible, Kubernetes, and other programs say, each on the page of its task alone.
ELSEWHERE = {
    "unable to get claim info for ResourceClaim",
    "Couldn't find the specified plugin name for gpu/nvml",
    "gres/gpu count reported lower than configured (3 < 4)",
    "Prolog error",
    "the playbook: gpu.node.repair could not be found",
    "Permission denied (publickey)",
    "Host key verification failed",
    "Read-only file system",
    "node(s) had untolerated taint",
    "node(s) didn't match Pod's node affinity/selector",
    "Job prolog failed",
    "Key was rejected by service",
    "Destination directory ... does not exist",
    "A worker was found in a dead state",
    "sorry, you must have a tty to run sudo",
    "kex_exchange_identification: Connection closed by remote host",
    "THESE PACKAGES DO NOT MATCH THE HASHES",
    "Timed out waiting for last boot time check",
    "Could not load 'gpu.node.progress' callback plugin",
    "GPU_VM_HOSTS is empty",
    "Missing sudo password",
    "No matching distribution found for ...",
    "error: the path ... does not exist",
    'pod rejected: RuntimeClass "nvidia" not found',
    "Server is not ready",
    "gpu-cluster: command not found",
    "Insufficient nvidia.com/mig-3g.20gb",
    "Insufficient nvidia.com/gpumem",
    "failed calling webhook",
    "cannot allocate all claims",
    "the playbook: ... could not be found",
    "couldn't resolve module/action ...",
    "the role ... was not found",
    "had untolerated taint",
    'RuntimeClass "nvidia" not found',
    "connection refused",
    'no matches for kind "ScrapeConfig"',
    'no matches for kind "ResourceSlice" in version "resource.k8s.io/v1"',
    "gpu-plugin: command not found",
    "No rule to make target 'demo'",
    'could not select device driver "" with capabilities: [[gpu]]',
    "unknown or invalid runtime name: nvidia",
}


def quoted() -> list[str]:
    """Return what the first cells of the tables quote, but for names, states and options."""
    text = "".join([PAGE.read_text(), *(one.read_text().partition(WRONG)[2] for one in PAGES)])
    rows = re.findall(r"^\| (.+?) \| .* \|$", text, re.MULTILINE)
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [one for one in spans if " " in one.strip(". ")]


def pieces(message: str) -> list[str]:
    """Return what stands still in a message, between the dots for what differs."""
    return [one.strip() for one in message.split("...") if len(one.strip()) > 2]


def constants(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module: constants, and what stands between an f-string's values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@functools.cache
def texts() -> str:
    """Return all texts of the code, and the files of roles, of playbooks, and of Kubernetes' objects."""
    python = (path for folder in CODE for path in sorted(folder.rglob("*.py")))
    found = [one for path in python for one in constants(ast.parse(path.read_text()))]
    found += [path.read_text() for folder in TASKS for path in sorted(folder.rglob("*.y*ml"))]
    found += [path.read_text() for path in DEMO]
    return "\n".join(found)


def missing(message: str) -> list[str]:
    """Return which pieces of a message no text of the collection has."""
    return [one for one in pieces(message) if one not in texts()]
