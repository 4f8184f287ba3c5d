# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's bindings in the device plugin's environment, a file of pure Python that any Python can import."""

from __future__ import annotations

import glob
import importlib.machinery
import importlib.util
import sys
import typing as t

FOLDERS = "/opt/gpu-node/current/lib/python3*/site-packages"


def of_environment(name: str, folders: str = FOLDERS) -> t.Any:
    """Import a module of the environment and nothing else of it; None if it isn't there."""
    spec = importlib.machinery.PathFinder.find_spec(name, glob.glob(folders))
    if spec is None or spec.loader is None:
        return None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
