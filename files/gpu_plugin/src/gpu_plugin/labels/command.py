# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin labels``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from .._shared._machine.nvml.within import LATE
from .._shared._mig.boot import CONFIG as MIG_CONFIG
from .._shared._mig.label import ANSWER, ASKED, CHOSEN
from .._shared._mig.label import LABEL as MIG_LABEL
from ..cluster.kubeconfig import node_name
from ..cluster.rate import BURST, QPS
from ..config import configuration as config
from ..config import sources
from ..tools import commands, logs
from ..tools.process import RestartNeeded
from ..tools.status import DEFAULT_FILE, LABELS_FILE
from . import mig
from .settings import (
    LAST_GOOD,
    OUTPUTS,
    ApiAccess,
    Configs,
    Files,
    Settings,
    extra,
    fallbacks,
    one_of,
    rate,
    switch,
)

LABEL: Final = "nvidia.com/device-plugin.config"
# Of the plugin's keys, those that labels depend on.
MATTER: Final = (
    "version",
    "flags.migStrategy",
    "flags.failOnInitError",
    "flags.nvidiaDriverRoot",
    "flags.plugin.containerDriverRoot",
    "flags.deviceDiscoveryStrategy",
    "flags.mpsRoot",
)
EVENTS_HELP: Final = (
    "write an Event where a GPU's health changes (default: true where the API is used)"
)
MIG_HELP: Final = f"pass on what the label {MIG_LABEL} asks for, and answer"
FALLBACKS_HELP: Final = "what to do without either: named, single, empty, in this order"
TEXTS: Final = (
    ("label-output", "GPU_LABELS_OUTPUT", "|".join(OUTPUTS), "where labels are written"),
    ("extra", "GPU_LABELS_EXTRA", "KEY=VALUE,...", "labels to add"),
    ("kubeconfig", "KUBECONFIG", "FILE", "access to the API (default: the kubelet's)"),
    (
        *("node-name", "NODE_NAME", "NAME"),
        "the node's name (default: that of the kubelet's certificate, or the host's)",
    ),
    (
        *("kube-api-qps", "KUBE_API_QPS", "NUMBER"),
        f"requests a second to the API (default: {QPS:.0f})",
    ),
    (
        *("kube-api-burst", "KUBE_API_BURST", "NUMBER"),
        f"requests at once to the API (default: {BURST})",
    ),
    (
        *("pod-name", "POD_NAME", "NAME"),
        "this process's pod, whose DaemonSet then owns the NodeFeature",
    ),
    ("namespace", "NAMESPACE", "NAME", "where NodeFeature objects go (default: default)"),
    ("node-events", "GPU_NODE_EVENTS", "true|false", EVENTS_HELP),
    ("node-condition", "GPU_NODE_CONDITION", "true|false", "keep the node's condition GPUHealthy"),
    ("mig-by-label", "GPU_NODE_MIG_BY_LABEL", "true|false", MIG_HELP),
    ("node-label", "NODE_LABEL", "KEY", f"chooses a configuration (default: {LABEL})"),
    ("config-file-srcdir", "CONFIG_FILE_SRCDIR", "DIR", "the configurations to choose from"),
    ("config-file-dst", "CONFIG_FILE_DST", "FILE", "the link to the chosen one"),
    ("default-config", "DEFAULT_CONFIG", "NAME", "the one that a node without the label has"),
    ("fallback-strategies", "FALLBACK_STRATEGIES", "LIST", FALLBACKS_HELP),
)
FILES: Final = (
    ("--status-file", LABELS_FILE, "where the state of this process is written"),
    ("--plugin-status-file", DEFAULT_FILE, "the plugin's, which says what it serves"),
    ("--last-good-file", LAST_GOOD, "where the plugin keeps the last good configuration"),
)
MIG_FILES: Final = (
    ("--mig-config", MIG_CONFIG, "the MIG layouts that a label may choose from"),
    ("--mig-asked", ASKED, "where the layout that is asked for is written"),
    ("--mig-answer", ANSWER, "where its service says how it went"),
    ("--mig-chosen", CHOSEN, "the layout that a label asked for last and got"),
)


def fill(command: argparse.ArgumentParser) -> None:
    """Give the command its options."""
    sources.add(command, config.KEYS)
    command.set_defaults(
        config=os.environ.get("GFD_CONFIG_FILE") or os.environ.get("CONFIG_FILE") or None
    )
    command.add_argument("--kubelet-socket", help=argparse.SUPPRESS)  # the plugin's
    commands.texts(command, ((*text[:3], "", text[3]) for text in TEXTS))
    command.add_argument(
        "--remove", action="store_true", help="remove all labels that were written, and exit"
    )
    commands.host_root(command, "/sys is")
    command.add_argument(
        "--patience",
        type=float,
        default=LATE,
        metavar="SECONDS",
        help="how long to wait for a scan of the GPUs (default: %(default)s)",
    )
    for name, path, text in (*FILES, *MIG_FILES):
        command.add_argument(name, type=Path, default=path, metavar="FILE", help=text)
    command.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from . import output, service  # brings NVML in

    settings = _settings(options)
    flags = sources.flags_given(options)
    keys = (key for key in config.RUN_KEYS if key.path in flags and key.path not in MATTER)
    unused = [key.flags[0] for key in keys]
    if options.kubelet_socket is not None:
        unused.append("--kubelet-socket")
    if unused:
        logs.warning("flags of the plugin that change no label", flags=unused)
    environment = dict(os.environ)
    for name in ("MIG_STRATEGY", "FAIL_ON_INIT_ERROR"):
        if text := environment.get(f"GFD_{name}"):
            environment[name] = text
    source = sources.Source(options, environment)
    if options.remove:
        return output.remove(settings, source.load().config)
    try:
        return service.Service(settings, source).run()
    except RestartNeeded as reason:
        logs.info("restarting", cause=reason)
        commands.restart()


def _settings(options: argparse.Namespace) -> Settings:
    configs, path, output = None, sources.path(options), options.label_output
    mig_files = (options.mig_config, options.mig_asked, options.mig_answer, options.mig_chosen)
    if options.config_file_srcdir:
        configs = Configs(
            Path(options.config_file_srcdir),
            Path(options.config_file_dst or path),
            options.default_config,
            fallbacks("fallback-strategies", options.fallback_strategies or "named,single"),
        )
    return Settings(
        files=Files(
            path,
            options.host_root,
            options.status_file,
            options.plugin_status_file,
            options.last_good_file,
        ),
        api=ApiAccess(
            node_name(options.node_name, options.kubeconfig),
            options.kubeconfig,
            options.namespace or "default",
            options.pod_name,
            rate(options.kube_api_qps, options.kube_api_burst),
            options.node_name,
        ),
        label_output=output and one_of(OUTPUTS, "label-output", output),
        extra=extra("extra", options.extra),
        configs=configs,
        node_label=options.node_label or LABEL,
        events=switch("node-events", options.node_events),
        condition=bool(switch("node-condition", options.node_condition)),
        mig=mig.Paths(*mig_files) if switch("mig-by-label", options.mig_by_label) else None,
        patience=options.patience,
    )
