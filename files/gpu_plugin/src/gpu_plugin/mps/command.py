# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin mps``."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._shared._core.errors import InputError
from . import settings, state
from .paths import PROGRAM, SETTINGS
from .settings import Settings, parse_memory

READERS: Final = {**settings.READERS, "replace_silent": settings.whole(0)}
SILENT_VARIABLE: Final = "GPU_MPS_REPLACE_SILENT"
FLAGS: Final = {  # by the setting: the flag's value, if it has one, and its help
    "replicas": ("N", "how many shares the device has"),
    "memory": ("BYTES|PERCENT", "memory of one share (default: an equal part)"),
    "threads": ("PERCENT", "threads of one share (default: an equal part)"),
    "combine": ("N", "how many shares one container may have together (default: 1)"),
    "drain": ("SECONDS", "how long clients may take to end at a stop (default: 30)"),
    "pipe_access": ("read-only|read-write", "what containers may do (default: read-only)"),
    "shm_size": ("BYTES", "of /dev/shm (default: an equal part of half the memory)"),
    "root": ("DIR", "where files go"),
    "overcommit": ("", "allow shares that are more than the device"),
    "multi_user": ("", "start a multi-user server, shared by the clients of all users"),
}


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
    for name, (word, text) in FLAGS.items():
        kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if word:
            kind = {"type": partial(_value, name), "metavar": word}
        flag = f"--{name.replace('_', '-')}"
        run.add_argument(flag, default=argparse.SUPPRESS, help=text, **kind)
    run.add_argument(
        "--replace-silent",
        type=partial(_value, "replace_silent"),
        default=os.environ.get(SILENT_VARIABLE) or "0",
        metavar="SECONDS",
        help="start a daemon again that has been silent for so long, although its clients end then"
        f" (default: never; environment: {SILENT_VARIABLE})",
    )
    run.add_argument("--control", default=PROGRAM, metavar="PROGRAM", help="NVIDIA's program")
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
    from . import run as manager  # brings NVML in, which the other commands have no use for
    from .supervisor import Options

    return manager.run(
        Options(
            device=options.device,
            settings=_settings(options),
            kept=options.settings,
            control=options.control,
            own_shm=not options.no_shm,
            interval=options.interval,
            steady=options.steady,
            replace_silent=options.replace_silent,
        )
    )


def _settings(options: argparse.Namespace) -> Settings:
    """Return the settings of the file with those of the flags in their place."""
    given = {name: value for name, value in vars(options).items() if name in FLAGS}
    if options.settings:
        return replace(state.load_settings(options.settings), **given)
    if "replicas" not in given:
        raise InputError.of("replicas", "", "a whole number from 1 on")
    return Settings(**given)


def _status(options: argparse.Namespace) -> int:
    roots = [options.root] if options.root else state.roots(Path(SETTINGS))
    states = state.named([one for root in roots for one in state.load(root)])
    if options.json:
        print(json.dumps(states, indent=2))
    else:
        print(state.describe(states) or "no device is shared by MPS")
    return 0


def _value(name: str, text: str) -> Any:
    """Return a setting that a flag gives. InputError: it is none."""
    if name == "memory":
        return parse_memory(text)
    if name == "root":
        text = str(Path(text).absolute())
    number = name != "threads" and text.isascii() and text.isdecimal()
    return READERS[name](name, int(text) if number else text)
