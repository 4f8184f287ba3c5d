# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-plugin mps``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

from .._shared._base.errors import InputError
from ..model.mps.paths import PROGRAM, SETTINGS
from . import state

SILENT_VARIABLE: Final = "GPU_MPS_REPLACE_SILENT"
INTERVAL, PATIENCE = "GPU_MPS_INTERVAL", "GPU_MPS_PATIENCE"
# Options in seconds: the variable in the environment, the default, and the help.
TIMES: Final = (
    (
        *("--interval", INTERVAL, "10"),
        f"how often to ask control daemons (default: 10; environment: {INTERVAL})",
    ),
    (
        *("--patience", PATIENCE, "5"),
        "how long a control daemon may take for an answer, and twice as long to begin"
        f" (default: 5; environment: {PATIENCE})",
    ),
    (
        *("--steady", "", "60"),
        "how long a control daemon must be ready until its next end is no reason to wait longer",
    ),
    ("--linger", "", "10", "how long to go on when no device is shared any more"),
)
# Seconds between two looks at compute modes, and after which a silent daemon that nobody uses is replaced.
HIDDEN: Final = {"--modes": 10.0, "--silent": 30.0}


def fill(mps: argparse.ArgumentParser) -> None:
    """Give the command its verbs."""
    verbs = mps.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser(
        "run",
        help="run the control daemons of all devices that have settings; SIGTERM leaves them to the"
        " next manager, SIGINT ends them",
    )
    run.add_argument(
        "--settings",
        type=Path,
        default=SETTINGS,
        metavar="DIR",
        help="where the plugin writes the settings of devices (default: %(default)s)",
    )
    run.add_argument(
        "--replace-silent",
        type=_seconds,
        default=os.environ.get(SILENT_VARIABLE) or "0",
        metavar="SECONDS",
        help="start a control daemon again that has been silent for so long, although its clients end then"
        f" (default: never; environment: {SILENT_VARIABLE})",
    )
    run.add_argument("--control", default=PROGRAM, metavar="PROGRAM", help="NVIDIA's program")
    run.add_argument(
        "--no-shm", action="store_true", help="use the node's /dev/shm, rather than an own one"
    )
    for name, variable, seconds, text in TIMES:
        default = os.environ.get(variable) or seconds
        run.add_argument(name, type=float, default=default, metavar="SECONDS", help=text)
    for name, value in HIDDEN.items():
        run.add_argument(name, type=float, default=value, help=argparse.SUPPRESS)
    run.set_defaults(command=_run)
    show = verbs.add_parser("status", help="show the control daemons of all devices")
    show.add_argument(
        "--root", type=Path, metavar="DIR", help="where their files are (default: where they say)"
    )
    show.add_argument("--json", action="store_true", help="as JSON")
    show.set_defaults(command=_status)


def _run(options: argparse.Namespace) -> int:
    from . import manager  # brings NVML in, which the other commands have no use for
    from .supervisor import Options

    how = Options(
        control=options.control,
        own_shm=not options.no_shm,
        interval=options.interval,
        modes=options.modes,
        patience=options.patience,
        steady=options.steady,
        silent=options.silent,
        replace_silent=options.replace_silent,
    )
    status = manager.Manager(options.settings, how, options.linger).run()
    sys.stderr.flush()
    os._exit(status)  # threads that wait for a control program have nothing to say any more


def _status(options: argparse.Namespace) -> int:
    states = state.named(state.everywhere(options.root))
    if options.json:
        print(json.dumps(states, indent=2))
    else:
        print(state.describe(states) or "no device is shared by MPS")
    return 0


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InputError.of("replace_silent", text, "a whole number from 0 on")
    return int(text)
