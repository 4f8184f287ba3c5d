# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The environment of the tests and of all that they start: nothing that the caller has set changes an answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .paths import CACHE, COLLECTIONS, PYTHONPATH

FOREIGN = ("ANSIBLE_", "PYTHON", "LC_", "LANG", "COV_", "MOLECULE_")
NAMES = {"KUBECONFIG", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "TZ"}
PROXIES = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}


def ours() -> dict[str, str]:
    """Return what is set for every test."""
    places = (Path(sys.executable).parent, CACHE / "venv/bin", CACHE / "zypper/usr/bin")
    there = os.environ["PATH"].split(os.pathsep)
    path = [*(str(one) for one in places), *(one for one in there if Path(one) not in places)]
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "GPUNODE_CACHE": str(CACHE / "node"),
        "LC_ALL": "C.UTF-8",
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONPATH": os.pathsep.join(map(str, PYTHONPATH)),
        "WHEELHOUSE": str(CACHE / "wheelhouse"),
    }


def foreign(name: str) -> bool:
    """Return whether a variable of the caller's would change what tests see."""
    return name.startswith(FOREIGN) or name in NAMES or name.lower() in PROXIES


def settle() -> None:
    """Make this process' environment the one of the tests."""
    for name in filter(foreign, list(os.environ)):
        del os.environ[name]
    os.environ.update(ours())
