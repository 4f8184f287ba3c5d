# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line: run the daemon, check a configuration, show the state."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import __version__
from .tools import commands, instance_lock, logs, status

POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
KUBELET_SOCKET: Final = "/var/lib/kubelet/device-plugins/kubelet.sock"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return commands.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    return commands.parser(
        f"gpu-plugin {__version__}",
        "Advertise GPUs to a kubelet",
        ("run", "advertise the node's GPUs to the kubelet", _run_options, _run),
        ("check-config", "check whether a configuration can be used", _check_options, _check),
        ("status", "show the node's devices, and who has them", _status_options, _status),
        (
            "health",
            "show which GPUs are unhealthy and why, and clear one",
            _health_options,
            _health,
        ),
        ("gate", "show which GPUs were not accepted and get no work", _gate_options, _gate),
        ("pods", "show which pods have which devices", _pods_options, _pods),
        ("probe", "check that the plugin is alive, for a pod's probes", _probe_options, _probe),
        ("mig", "apply the MIG layout that was written down (at boot)", _mig_options, _mig),
        ("mig-label", "apply the MIG layout that a label asks for", _label_options, _mig_label),
        ("settings", "set the GPUs again (at boot)", _settings_options, _settings),
        ("cdi", "describe the GPUs to container runtimes (at boot)", _cdi_options, _cdi),
        commands.package_command(
            f"{__package__}.mps", "share a device by CUDA's Multi-Process Service"
        ),
        commands.package_command(f"{__package__}.labels", "label the node with what its GPUs are"),
        commands.package_command(
            f"{__package__}.dra", "give GPUs to claims of Dynamic Resource Allocation"
        ),
    )


def _check_options(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", type=Path, metavar="FILE", help="-: standard input")
    text = "also check whether this node's devices allow it, and say which wait for pods"
    check.add_argument("--node", action="store_true", help=text)
    _pod_resources(check)
    text = "where the device plugin keeps the state of its devices (default: %(default)s)"
    check.add_argument(
        "--state-directory", type=Path, default=status.STATE_DIRECTORY, metavar="DIR", help=text
    )


def _status_options(show: argparse.ArgumentParser) -> None:
    from ._shared._base.dra import names
    from ._shared._base.services.mig import STATUS as MIG_STATUS
    from ._shared._cdi import boot as cdi_boot

    show.add_argument("--json", action="store_true", help="as JSON")
    _files(
        show,
        status_file=status.DEFAULT_FILE,
        mig_status_file=MIG_STATUS,
        labels_status_file=status.LABELS_FILE,
        dra_status_file=names.STATUS,
        cdi_config=cdi_boot.CONFIG,
    )
    show.add_argument(
        "--mps-root",
        type=Path,
        metavar="DIR",
        help="the only folder to look for MPS daemons in (default: wherever they have their files)",
    )
    _pod_resources(show)


def _pods_options(pods: argparse.ArgumentParser) -> None:
    pods.add_argument("--json", action="store_true", help="as JSON")
    _pod_resources(pods)


def _pod_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pod-resources",
        type=Path,
        default=POD_RESOURCES,
        metavar="SOCKET",
        help="the kubelet's PodResources socket, which says which pod has which device (default: %(default)s)",
    )


def _health_options(health: argparse.ArgumentParser) -> None:
    from .report.faults import PATIENCE

    health.add_argument("--json", action="store_true", help="as JSON")
    _files(health, status_file=status.DEFAULT_FILE)
    health.set_defaults(gpu=None)
    clear = health.add_subparsers(metavar="clear").add_parser(
        "clear", help="use a GPU again at once, whatever happened to it (root only)"
    )
    clear.add_argument("gpu", metavar="GPU", help="its index or UUID")
    _seconds(clear, "--timeout", PATIENCE, "how long the device plugin may take")


def _gate_options(gate: argparse.ArgumentParser) -> None:
    gate.add_argument("--json", action="store_true", help="as JSON")
    gate.set_defaults(action="")
    actions = gate.add_subparsers(metavar="ACTION")
    text = "compare the GPUs with the record of their tests first (root only)"
    actions.add_parser("check", help=text).set_defaults(action="check")
    text = "drain the node in Slurm while a GPU is held, and give it back then (root only)"
    slurm = actions.add_parser("slurm", help=text)
    slurm.set_defaults(action="slurm")
    text = "the node's name in slurm.conf (environment: SLURMD_NODENAME; default: the host's name)"
    host = socket.gethostname().partition(".")[0]
    name = os.environ.get("SLURMD_NODENAME") or host
    slurm.add_argument("--node", default=name, metavar="NAME", help=text)
    text = "Slurm's scontrol, by its path if that is not on root's PATH (default: %(default)s)"
    slurm.add_argument("--scontrol", default="scontrol", metavar="PROGRAM", help=text)


def _probe_options(probe: argparse.ArgumentParser) -> None:
    probe.add_argument(
        "--ready",
        action="store_true",
        help="also whether all devices are advertised to the kubelet",
    )
    _files(probe, status_file=status.DEFAULT_FILE)


def _mig_options(mig: argparse.ArgumentParser) -> None:
    from ._shared._base.services.mig import LOCK as MIG_LOCK
    from ._shared._base.services.mig import STATUS as MIG_STATUS
    from ._shared._mig import boot as mig_boot
    from ._shared._mig import label

    _files(mig, config=mig_boot.CONFIG, status=MIG_STATUS, lock=MIG_LOCK)
    _files(mig, chosen=label.CHOSEN)
    _wait(mig, 120.0)
    _patience(mig, mig_boot.PATIENCE)
    _pod_resources(mig)


def _label_options(command: argparse.ArgumentParser) -> None:
    from ._shared._base.services.mig import STATUS as MIG_STATUS
    from ._shared._mig import boot as mig_boot
    from ._shared._mig import label

    _files(command, config=mig_boot.CONFIG, asked=label.ASKED, answer=label.ANSWER)
    _files(command, chosen=label.CHOSEN, status=MIG_STATUS)


def _settings_options(command: argparse.ArgumentParser) -> None:
    from ._shared._settings import boot as settings_boot

    _files(command, config=settings_boot.CONFIG)
    _wait(command, 120.0)
    _patience(command, settings_boot.PATIENCE)


def _cdi_options(cdi: argparse.ArgumentParser) -> None:
    from ._shared._base.services.mig import LOCK as MIG_LOCK
    from ._shared._cdi import boot as cdi_boot

    _files(cdi, config=cdi_boot.CONFIG, lock=MIG_LOCK)
    _wait(cdi, 60.0)
    _patience(cdi, cdi_boot.PATIENCE)


def _run_options(run: argparse.ArgumentParser) -> None:
    from .config import configuration, sources
    from .driver.health import QUIET

    run.add_argument(
        "--kubelet-socket",
        type=_socket,
        default=os.environ.get("KUBELET_SOCKET") or KUBELET_SOCKET,
        metavar="SOCKET",
        help="the kubelet's; the plugin's own are next to it (environment: KUBELET_SOCKET)",
    )
    _files(run, status_file=status.DEFAULT_FILE)
    commands.host_root(run, "/proc, /sys and /dev are")
    _seconds(run, "--rescan", 5.0, "how often to look for changes")
    _seconds(run, "--recovery-period", QUIET, "how long without a fault until it is Healthy again")
    text = "how long to wait for another device plugin that is about to end"
    _seconds(run, "--lock-timeout", instance_lock.PATIENCE, text)
    commands.mps_managers(run)
    run.add_argument(
        "--state-directory",
        type=Path,
        default=os.environ.get("STATE_DIRECTORY") or None,
        metavar="DIR",
        help="where the last good configuration is kept (environment: STATE_DIRECTORY; default: nowhere)",
    )
    sources.add(run, configuration.RUN_KEYS)


def _files(parser: argparse.ArgumentParser, **defaults: object) -> None:
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=Path, default=default, metavar="FILE")


def _wait(parser: argparse.ArgumentParser, seconds: float) -> None:
    _seconds(parser, "--wait", seconds, "how long to wait for a driver")


def _patience(parser: argparse.ArgumentParser, seconds: float) -> None:
    text = "how long what starts after this waits while nothing happens"
    _seconds(parser, "--patience", seconds, text)


def _seconds(parser: argparse.ArgumentParser, flag: str, default: float, text: str) -> None:
    text += " (default: %(default)s)"
    parser.add_argument(flag, type=float, default=default, metavar="SECONDS", help=text)


def _socket(text: str) -> Path:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid: expected an absolute path; a plugin that does not register,"
            " which is what an empty one would be, is not supported"
        )
    return Path(text)


def _run(options: argparse.Namespace) -> int:
    from . import daemon  # brings gRPC in, which the other commands have no use for
    from .config import sources
    from .driver.nvml import DriverReplaced

    source = sources.Source(options, os.environ)
    settings = daemon.Settings(
        options.kubelet_socket,
        options.status_file,
        options.host_root,
        options.rescan,
        options.recovery_period,
        options.mps_managers,
        options.state_directory,
    )
    try:
        with instance_lock.hold(options.status_file.parent, os.environ, options.lock_timeout):
            return daemon.Daemon(settings, source).run()
    except DriverReplaced:
        logs.info("the driver was replaced, restarting")
        commands.restart()


def _check(options: argparse.Namespace) -> int:
    from .report import check  # as above

    pods, state = options.pod_resources, options.state_directory
    return check.check(options.file, node=options.node, pods=pods, state=state)


def _status(options: argparse.Namespace) -> int:
    from .report import survey  # as above

    return survey.show(
        options.status_file,
        options.mig_status_file,
        options.cdi_config,
        options.labels_status_file,
        options.pod_resources,
        options.mps_root,
        options.dra_status_file,
        as_json=options.json,
    )


def _health(options: argparse.Namespace) -> int:
    from .report import faults

    if options.gpu is not None:
        return faults.clear(options.gpu, options.status_file, options.timeout)
    return faults.show(options.status_file, as_json=options.json)


def _gate(options: argparse.Namespace) -> int:
    from .boot import gate, slurm  # as above

    if options.action == "slurm":
        return slurm.follow_gate(options.node, options.scontrol)
    return gate.check() if options.action else gate.show(as_json=options.json)


def _pods(options: argparse.Namespace) -> int:
    from .report import survey  # as above

    return survey.show_pods(options.pod_resources, as_json=options.json)


def _probe(options: argparse.Namespace) -> int:
    from .report import probes

    problem = probes.problem(options.status_file, ready=options.ready)
    print(problem or "ok")
    return 1 if problem else 0


def _mig(options: argparse.Namespace) -> int:
    from .boot import mig  # the other commands have no use for the planner

    return mig.mig(
        options.config,
        options.status,
        options.lock,
        options.wait,
        options.pod_resources,
        options.patience,
        options.chosen,
    )


def _mig_label(options: argparse.Namespace) -> int:
    from .boot import label  # as above

    files = (options.config, options.asked, options.answer, options.chosen, options.status)
    return label.mig_label(label.Paths(*files))


def _settings(options: argparse.Namespace) -> int:
    from .boot import settings  # as above

    return settings.settings(options.config, options.wait, options.patience)


def _cdi(options: argparse.Namespace) -> int:
    from .boot import cdi  # as above

    return cdi.cdi(options.config, options.lock, options.wait, options.patience)
