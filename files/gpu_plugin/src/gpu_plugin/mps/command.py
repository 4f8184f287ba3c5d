# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin mps``."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from .._shared._core.errors import InputError
from .paths import ENVIRONMENT, ROOT
from .settings import PIPE_ACCESS, READ_ONLY, ROOT_VARIABLE

TRUE = ("true", "1", "yes")


def fill(mps: argparse.ArgumentParser) -> None:
    """Give the command its verbs."""
    verbs = mps.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run the control daemon of one device until SIGTERM")
    run.add_argument("--device", required=True, metavar="UUID", help="GPU or MIG device")
    for flag, word, text in (
        ("replicas", "N", "how many shares the device has"),
        ("memory", "BYTES|PERCENT", "memory of one share (default: an equal part)"),
        ("threads", "PERCENT", "threads of one share (default: an equal part)"),
        ("combine", "N", "how many shares one container may have together (default: 1)"),
        ("drain", "SECONDS", "how long clients may take to end at a stop (default: 30)"),
        ("pipe-access", "read-only|read-write", "what containers may do (default: read-only)"),
        ("shm-size", "BYTES", "of /dev/shm (default: an equal part of half the memory)"),
        (
            "replace-silent",
            "SECONDS",
            "start a daemon again that has been silent for so long, although its clients end then"
            " (default: never)",
        ),
    ):
        name = f"GPU_MPS_{flag.upper().replace('-', '_')}"
        words = f"{text} (environment: {name})"
        run.add_argument(f"--{flag}", default=os.environ.get(name, ""), metavar=word, help=words)
    for flag, text in (
        ("overcommit", "allow shares that are more than the device"),
        ("multi-user", "let clients of all users share a server"),
    ):
        name = f"GPU_MPS_{flag.upper().replace('-', '_')}"
        run.add_argument(
            f"--{flag}",
            action="store_true",
            default=os.environ.get(name, "").lower() in TRUE,
            help=f"{text} (environment: {name})",
        )
    run.add_argument(
        "--root",
        type=Path,
        default=Path(os.environ.get(ROOT_VARIABLE) or ROOT),
        metavar="DIR",
        help=f"where files go (environment: {ROOT_VARIABLE})",
    )
    run.add_argument(
        "--shared-while",
        type=Path,
        metavar="FILE",
        help="while it is there an end is a pause: shared memory and compute mode stay",
    )
    run.add_argument(
        "--control", default="nvidia-cuda-mps-control", metavar="PROGRAM", help="NVIDIA's program"
    )
    run.add_argument(
        "--no-shm", action="store_true", help="use the node's /dev/shm, rather than an own one"
    )
    run.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS", help="how often to ask the daemon"
    )
    run.add_argument(
        "--steady",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a daemon must be ready until its next end is no reason to wait longer",
    )
    run.set_defaults(command=_run)
    show = verbs.add_parser("status", help="show the daemons of all devices")
    show.add_argument(
        "--root", type=Path, metavar="DIR", help="where their files are (default: where they say)"
    )
    show.add_argument("--json", action="store_true", help="as JSON")
    show.set_defaults(command=_status)


def _run(options: argparse.Namespace) -> int:
    from .manager import run as manager  # brings NVML in, which the other commands have no use for

    if options.pipe_access not in ("", *PIPE_ACCESS):
        raise InputError.of("pipe-access", options.pipe_access, f"one of {', '.join(PIPE_ACCESS)}")

    return manager.run(
        manager.Options(
            device=options.device,
            replicas=_number("replicas", options.replicas),
            memory=options.memory,
            threads=options.threads,
            most=_number("combine", options.combine or "1"),
            overcommit=options.overcommit,
            multi_user=options.multi_user,
            root=options.root,
            control=options.control,
            own_shm=not options.no_shm,
            shm_size=_number("shm-size", options.shm_size) if options.shm_size else 0,
            drain=_number("drain", options.drain or "30"),
            interval=options.interval,
            shared_while=options.shared_while,
            steady=options.steady,
            pipe_access=options.pipe_access or READ_ONLY,
            replace_silent=_number("replace-silent", options.replace_silent or "0", least=0),
        )
    )


def _status(options: argparse.Namespace) -> int:
    from . import listing

    roots = [options.root] if options.root else listing.roots(Path(ENVIRONMENT))
    states = listing.named([state for root in roots for state in listing.load(root)])
    if options.json:
        print(json.dumps(states, indent=2))
    else:
        print(listing.describe(states) or "no device is shared by MPS")
    return 0


def _number(key: str, text: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) >= least):
        raise InputError.of(key, text, f"a whole number from {least} on")
    return int(text)
