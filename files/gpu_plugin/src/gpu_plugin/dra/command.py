# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin dra``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from .._shared._base.dra import names
from .._shared._base.errors import InputError
from .._shared._base.services.mig import LOCK
from ..cluster.kubeconfig import node_name
from ..config import configuration as config
from ..config import sources
from ..config.schema import address
from ..tools import commands, logs
from ..tools.process import RestartNeeded

KUBELET: Final = "/var/lib/kubelet"
METRICS: Final = "127.0.0.1:9403"  # the device plugin's are at 9402
TEXTS: Final = (
    ("kubeconfig", "KUBECONFIG", "FILE", "", "access to the API (default: the kubelet's)"),
    (
        "node-name",
        "NODE_NAME",
        "NAME",
        "",
        "the node's name (default: that of the kubelet's certificate, or the host's)",
    ),
    (*("kubelet-root", "KUBELET_ROOT", "DIR", KUBELET), "where the kubelet's plugins register"),
    (
        *("dra-metrics-address", "GPU_DRA_METRICS_ADDRESS", "ADDRESS", METRICS),
        "where metrics and health are served over HTTP; off: nowhere",
    ),
)
FILES: Final = (
    ("--checkpoint", names.CHECKPOINT, "what claims hold on this node"),
    ("--status-file", names.STATUS, "where the state of this process is written"),
    ("--mig-lock", LOCK, "the lock that a change of MIG layouts takes"),
)


def fill(command: argparse.ArgumentParser) -> None:
    """Give the command its options."""
    sources.add(command, config.RUN_KEYS)
    commands.texts(command, TEXTS)
    commands.host_root(command, "/proc, /sys, /dev and CDI folders are")
    commands.mps_managers(command)
    command.add_argument(
        "--rescan", type=float, default=5.0, metavar="SECONDS", help="how often to look for changes"
    )
    for name, path, text in FILES:
        command.add_argument(name, type=Path, default=path, metavar="FILE", help=text)
    command.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from ..driver.nvml import DriverReplaced
    from .service import Paths, Service  # brings gRPC, NVML and the Kubernetes client in

    root = Path(options.kubelet_root)
    if not root.is_absolute():
        raise InputError.of("--kubelet-root", options.kubelet_root, "an absolute path")
    paths = Paths(
        node_name(options.node_name, options.kubeconfig),
        options.kubeconfig,
        options.host_root,
        root / Path(names.SOCKET).relative_to(KUBELET),
        root / Path(names.REGISTRATION).relative_to(KUBELET),
        options.checkpoint,
        options.status_file,
        options.mig_lock,
        options.mps_managers,
        address("--dra-metrics-address", options.dra_metrics_address),
        options.rescan,
        options.node_name,
    )
    try:
        return Service(paths, sources.Source(options, os.environ)).run()
    except DriverReplaced:
        logs.info("the driver was replaced, restarting")
        commands.restart()
    except RestartNeeded as reason:
        logs.info("restarting", cause=reason)
        commands.restart()
