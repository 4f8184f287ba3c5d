# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Find the Python that has the libraries which a module needs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import typing as t

from ansible.module_utils.common.respawn import has_respawned, respawn_module

NODE_PYTHON = "/opt/gpu-node/current/bin/python"


def ensure_importable(*libraries: str, candidates: t.Sequence[str] = (NODE_PYTHON,)) -> bool:
    """Make sure that the libraries can be imported, by running again under another Python if need be.

    Returns False where no candidate has them, so that the caller can do without or say so. Call it
    first thing in main(): a module that runs again does so from its beginning.
    """
    if all(importlib.util.find_spec(name) is not None for name in libraries):
        return True
    if has_respawned():
        return False
    for python in candidates:
        if os.access(python, os.X_OK) and _imports(python, libraries):
            respawn_module(python)
    return False


def _imports(python: str, libraries: t.Sequence[str]) -> bool:
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *libraries], check=False, capture_output=True)
    return done.returncode == 0
