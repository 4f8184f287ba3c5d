# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Kubernetes device plugin for NVIDIA GPUs that runs on the host, without a container."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("gpu-plugin")
except metadata.PackageNotFoundError:  # run from a source tree
    __version__ = "0.1.0"
