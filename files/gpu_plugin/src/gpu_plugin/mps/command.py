# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin mps``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._shared._core.errors import InputError
from . import kept
from .paths import SETTINGS
from .settings import PIPE_ACCESS, Settings
from .shares import parse_memory, parse_percent

SILENT_VARIABLE: Final = "GPU_MPS_REPLACE_SILENT"


def fill(mps: argparse.ArgumentParser) -> None:
    """Give the command its verbs."""
    verbs = mps.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run the control daemon of one device until SIGTERM")
    run.add_argument("--device", required=True, metavar="UUID", help="GPU or MIG device")
    run.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="the settings, which other flags replace one by one; while the file is there an end is a"
        " pause: shared memory and compute mode stay",
    )
    for flag, word, text in (
        ("replicas", "N", "how many shares the device has"),
        ("memory", "BYTES|PERCENT", "memory of one share (default: an equal part)"),
        ("threads", "PERCENT", "threads of one share (default: an equal part)"),
        ("combine", "N", "how many shares one container may have together (default: 1)"),
        ("drain", "SECONDS", "how long clients may take to end at a stop (default: 30)"),
        ("pipe-access", "read-only|read-write", "what containers may do (default: read-only)"),
        ("shm-size", "BYTES", "of /dev/shm (default: an equal part of half the memory)"),
    ):
        run.add_argument(f"--{flag}", metavar=word, help=text)
    for flag, text in (
        ("overcommit", "allow shares that are more than the device"),
        ("multi-user", "start a multi-user server, shared by the clients of all users"),
    ):
        run.add_argument(f"--{flag}", action=argparse.BooleanOptionalAction, help=text)
    run.add_argument("--root", type=Path, metavar="DIR", help="where files go")
    run.add_argument(
        "--replace-silent",
        default=os.environ.get(SILENT_VARIABLE) or "0",
        metavar="SECONDS",
        help="start a daemon again that has been silent for so long, although its clients end then"
        f" (default: never; environment: {SILENT_VARIABLE})",
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
    from .manager.options import Options

    return manager.run(
        Options(
            device=options.device,
            settings=_settings(options),
            kept=options.settings,
            control=options.control,
            own_shm=not options.no_shm,
            interval=options.interval,
            steady=options.steady,
            replace_silent=_number("replace-silent", options.replace_silent, least=0),
        )
    )


def _settings(options: argparse.Namespace) -> Settings:
    """Return the settings of the file with those of the flags in their place."""
    given = {name: read(value) for name, read in FLAGS.items() if (value := getattr(options, name))}
    given |= {
        name: value
        for name in ("overcommit", "multi_user")
        if (value := getattr(options, name)) is not None
    }
    if options.settings:
        return replace(kept.load(options.settings), **given)
    return Settings(**{"replicas": _number("replicas", options.replicas or ""), **given})


def _pipe_access(text: str) -> str:
    if text not in PIPE_ACCESS:
        raise InputError.of("pipe-access", text, f"one of {', '.join(PIPE_ACCESS)}")
    return text


def _status(options: argparse.Namespace) -> int:
    from . import listing

    roots = [options.root] if options.root else kept.roots(Path(SETTINGS))
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


FLAGS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "replicas": partial(_number, "replicas"),
    "memory": parse_memory,
    "threads": partial(parse_percent, "threads"),
    "combine": partial(_number, "combine"),
    "drain": partial(_number, "drain"),
    "pipe_access": _pipe_access,
    "shm_size": partial(_number, "shm-size"),
    "root": lambda path: str(path.absolute()),
}
