# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where things are."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"
COLLECTIONS = CACHE / "collections"
DAEMON = REPOSITORY / "files/gpu_plugin"
DAEMON_SOURCES = DAEMON / "src"
CLUSTER_SOURCES = REPOSITORY / "files/gpu_cluster/src"
DOCS = REPOSITORY / "docs"
TESTS = REPOSITORY / "tests"
FAKES = TESTS / "fakes"
MPS_CONTROL = FAKES / "mps/standin_mps_control.py"
NVSIM = FAKES / "nvsim"
# What tests and the processes that they start import from; pyproject.toml has the same for pytest itself.
SOURCES = (DAEMON_SOURCES, CLUSTER_SOURCES)
PYTHONPATH = (COLLECTIONS, NVSIM, FAKES / "kubelet", FAKES / "node", *SOURCES, REPOSITORY)
