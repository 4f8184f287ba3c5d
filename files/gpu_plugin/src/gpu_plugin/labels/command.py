# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin labels``."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path
from typing import Final

from ..config import configuration as config
from ..config import sources
from ..status import LABELS_FILE
from ..tools import logs
from .settings import OUTPUTS, Configs, Settings, extra, fallbacks, one_of

LABEL: Final = "nvidia.com/device-plugin.config"
SHARED_KEYS: Final = ("flags.migStrategy", "flags.failOnInitError", "flags.nvidiaDriverRoot")
FALLBACKS_HELP: Final = "what to do without either: named, single, empty, in this order"
TEXTS: Final = (
    ("label-output", "GPU_LABELS_OUTPUT", "|".join(OUTPUTS), "where labels are written"),
    ("extra", "GPU_LABELS_EXTRA", "KEY=VALUE,...", "labels to add"),
    ("kubeconfig", "KUBECONFIG", "FILE", "access to the API (default: the kubelet's)"),
    ("node-name", "NODE_NAME", "NAME", "the node's name (default: the host's)"),
    ("namespace", "NAMESPACE", "NAME", "where NodeFeature objects go (default: default)"),
    ("node-label", "NODE_LABEL", "KEY", f"chooses a configuration (default: {LABEL})"),
    ("config-file-srcdir", "CONFIG_FILE_SRCDIR", "DIR", "the configurations to choose from"),
    ("config-file-dst", "CONFIG_FILE_DST", "FILE", "the link to the chosen one"),
    ("default-config", "DEFAULT_CONFIG", "NAME", "the one that a node without the label has"),
    ("fallback-strategies", "FALLBACK_STRATEGIES", "LIST", FALLBACKS_HELP),
)


def fill(command: argparse.ArgumentParser) -> None:
    """Give the command its options."""
    shared = (key for key in config.RUN_KEYS if key.path in SHARED_KEYS)
    sources.add(command, (*shared, *config.LABEL_KEYS))
    for name, variable, word, text in TEXTS:
        command.add_argument(
            f"--{name}",
            dest=name.replace("-", "_"),
            default=os.environ.get(variable, ""),
            metavar=word,
            help=f"{text} (environment: {variable})",
        )
    command.add_argument(
        "--remove", action="store_true", help="remove all labels that were written, and exit"
    )
    command.add_argument(
        "--host-root",
        type=Path,
        default=os.environ.get("GPU_PLUGIN_HOST_ROOT") or "/",
        metavar="DIR",
        help="where the host's /sys is seen (environment: GPU_PLUGIN_HOST_ROOT)",
    )
    command.add_argument("--status-file", type=Path, default=Path(LABELS_FILE), metavar="FILE")
    command.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from . import output, service  # brings NVML in

    settings = _settings(options)
    environment = dict(os.environ)
    for name in ("MIG_STRATEGY", "FAIL_ON_INIT_ERROR"):
        if text := environment.get(f"GFD_{name}"):
            environment[name] = text

    def load() -> config.Config:
        return sources.load(options, environment)[0]

    if options.remove:
        return output.remove(settings, load())
    try:
        return service.Service(settings, load).run()
    except service.RestartNeeded as reason:
        logs.info("restarting", cause=reason)
        os.execv(sys.executable, [sys.executable, "-m", "gpu_plugin", *sys.argv[1:]])


def _settings(options: argparse.Namespace) -> Settings:
    configs, path, output = None, sources.path(options), options.label_output
    if options.config_file_srcdir:
        configs = Configs(
            Path(options.config_file_srcdir),
            Path(options.config_file_dst or path),
            options.default_config,
            fallbacks("fallback-strategies", options.fallback_strategies or "named,single"),
        )
    return Settings(
        config=path,
        node=options.node_name or socket.gethostname().lower(),
        label_output=output and one_of(OUTPUTS, "label-output", output),
        kubeconfig=options.kubeconfig,
        namespace=options.namespace or "default",
        extra=extra("extra", options.extra),
        configs=configs,
        node_label=options.node_label or LABEL,
        host_root=options.host_root,
        status_file=options.status_file,
    )
