# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

from . import nodes, snapshots, ssh
from .image import SUITES, build

NEEDED = ("podman", "runc", "debootstrap", "nsenter", "ssh", "gcc", "make")


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    top = argparse.ArgumentParser(prog="gpunode", description="Simulated GPU nodes.")
    verbs = top.add_subparsers(dest="verb", required=True)
    image = verbs.add_parser("image", help="build the image unless it is there")
    verbs.add_parser("list", help="list the nodes")
    verbs.add_parser("clean", help="remove all nodes, images and files of this tool")
    up = verbs.add_parser("up", help="start a node")
    up.add_argument("name")
    up.add_argument("--product", default="h100-80")
    up.add_argument("--gpus", type=int, default=8)
    up.add_argument("--no-gpu", action="store_true")
    up.add_argument("--snapshot", help="boot from this one instead of a bare disk")
    up.add_argument(
        "--volume", action="append", default=[], help="a folder for it, as podman has it"
    )
    for verb in (image, up):
        verb.add_argument("--suite", choices=SUITES, default="trixie")
    snapshot = verbs.add_parser("snapshot", help="shut a node down and keep it as it is")
    snapshot.add_argument("name")
    snapshot.add_argument("snapshot")
    forget = verbs.add_parser("forget", help="remove all of a run of tests, or of each")
    forget.add_argument("run", nargs="?", default="")
    forget.add_argument("--killed", action="store_true", help="of those that were killed alone")
    for verb, text in {
        "down": "remove a node",
        "reboot": "reboot a node",
        "ssh": "open a shell",
    }.items():
        verbs.add_parser(verb, help=text).add_argument("name")
    run = verbs.add_parser("exec", help="run a command on a node")
    run.add_argument("name")
    run.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("inventory", help="print an Ansible inventory").add_argument(
        "names", nargs="+"
    )
    return top


def main() -> None:
    """Run the tool."""
    options = parser().parse_args()
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        sys.exit(
            f"gpunode: {', '.join(missing)} not found. Next step: run tests/setup-host as root."
        )
    if os.geteuid() != 0:
        sys.exit("gpunode: nodes are privileged containers. Next step: run as root.")
    match options.verb:
        case "image":
            print(build(options.suite))
        case "list":
            print("\n".join(nodes.names()))
        case "clean":
            nodes.clean()
        case "snapshot":
            snapshots.take(options.name, options.snapshot)
        case "forget" if options.killed:
            nodes.forget_killed()
        case "forget":
            nodes.forget(options.run)
        case "up" if options.snapshot:
            snapshots.start(options.name, options.snapshot, options.volume)
        case "up":
            gpus = 0 if options.no_gpu else options.gpus
            nodes.up(options.name, options.product, gpus, options.suite, options.volume)
        case "down":
            nodes.down(options.name)
        case "reboot":
            nodes.reboot(options.name)
        case "ssh":
            sys.exit(ssh.run(options.name, capture=False).returncode)
        case "exec":
            words = options.command[1:] if options.command[:1] == ["--"] else options.command
            sys.exit(nodes.execute(options.name, words))
        case "inventory":
            print(json.dumps(nodes.inventory(options.names), indent=2))
