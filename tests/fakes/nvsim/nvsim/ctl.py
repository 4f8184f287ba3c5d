# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""nvsimctl: change the scene of the simulated machine."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .state import new_board, write_json

DEFAULT_SOCKET = "/run/nvsim/nvsim.sock"


class Client:
    """A conversation with the daemon."""

    def __init__(self, path: str | None = None) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path or os.environ.get("NVSIM_SOCKET", DEFAULT_SOCKET))
        self.socket.sendall(b"control".ljust(64, b"\0"))
        self.stream = self.socket.makefile("rw", encoding="utf-8")

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Send a request and return its result; ValueError carries the daemon's complaint."""
        self.stream.write(json.dumps({"verb": verb, **arguments}) + "\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the conversation."""
        self.stream.close()
        self.socket.close()


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(prog="nvsimctl", description=__doc__)
    top.add_argument("--socket")
    verbs = top.add_subparsers(dest="verb", required=True)
    board = verbs.add_parser("board", help="write a new board (while the daemon is down)")
    board.add_argument("action", choices=["create"])
    board.add_argument("--product", required=True)
    board.add_argument("--gpus", type=int, default=1)
    board.add_argument("--dir", type=Path, default=Path("/var/lib/nvsim"))
    for name in (
        "status",
        "unload",
        "reboot",
        "clear-faults",
        "step",
        "render",
        "called",
        "waiting",
    ):
        verbs.add_parser(name)
    verbs.add_parser("answered").add_argument("pid", type=int)
    for name in ("load", "reload"):
        verb = verbs.add_parser(name)
        verb.add_argument("--version", required=name == "load")
        verb.add_argument("--flavour", choices=["open", "proprietary"])
    option = verbs.add_parser("option", help="let the loaded driver have been given an option")
    option.add_argument("name")
    option.add_argument("value")
    for name in ("restore", "reset", "die"):
        verbs.add_parser(name).add_argument("gpu")
    verbs.choices["die"].add_argument("--at", choices=["once", "reset"], default="once")
    lose = verbs.add_parser("lose")
    lose.add_argument("gpu")
    lose.add_argument("--how", choices=["lost", "reset_required"], default="lost")
    xid = verbs.add_parser("xid")
    xid.add_argument("gpu")
    xid.add_argument("number", type=int)
    hold = verbs.add_parser("hold", help="be a process on a GPU until killed")
    hold.add_argument("gpu")
    hold.add_argument("--mem", type=int, default=256, help="MiB")
    for verb in (xid, hold):
        verb.add_argument("--gi", type=int)
        verb.add_argument("--ci", type=int)
    fault = verbs.add_parser("fault")
    fault.add_argument("gpu", help="index, UUID, PCI address or all")
    fault.add_argument("function")
    fault.add_argument("code", type=int)
    fault.add_argument("--nth", type=int, default=1)
    fault.add_argument("--times", type=int)
    for name in ("passthrough", "vgpu", "fabric-manager", "profiles-need-mig"):
        verbs.add_parser(name).add_argument("on", choices=["on", "off"])
    wear = verbs.add_parser("wear", help="let a memory row fail for good, or undo that")
    wear.add_argument("gpu")
    wear.add_argument("on", choices=["on", "off"])
    cap = verbs.add_parser("cap", help="let a BMC cap a GPU's power, 0 for no more")
    cap.add_argument("gpu")
    cap.add_argument("watts", type=int)
    ecc = verbs.add_parser("ecc", help="count memory errors that could not be corrected")
    ecc.add_argument("gpu")
    ecc.add_argument("errors", type=int)
    ecc.add_argument("--pending", choices=["on", "off"], default="off")
    rows = verbs.add_parser("rows", help="let so many memory rows have been replaced")
    rows.add_argument("gpu")
    rows.add_argument("correctable", type=int)
    rows.add_argument("uncorrectable", type=int)
    sram = verbs.add_parser("sram", help="count errors in SRAM that could not be corrected")
    sram.add_argument("gpu")
    sram.add_argument("errors", type=int)
    sram.add_argument("--exceeded", choices=["on", "off"], default="off")
    repair = verbs.add_parser("repair", help="let a part wait for its repair, or be beyond it")
    repair.add_argument("gpu")
    repair.add_argument("what", choices=["channel", "tpc", "unrepairable"])
    energy = verbs.add_parser("energy", help="let a GPU have been on for so many seconds")
    energy.add_argument("gpu")
    energy.add_argument("seconds", type=float)
    recovery = verbs.add_parser("recovery", help="let the driver ask for a recovery action")
    recovery.add_argument("gpu")
    recovery.add_argument("action", type=int)
    fabric = verbs.add_parser("fabric", help="let a GPU join an NVLink fabric of machines")
    fabric.add_argument("gpu")
    fabric.add_argument("cluster", metavar="UUID")
    fabric.add_argument("clique", type=int)
    state = verbs.add_parser("fabric-state", help="let a GPU's fabric be in a state")
    state.add_argument("gpu")
    state.add_argument("state", type=int)
    state.add_argument("--status", type=int)
    state.add_argument("--health", type=int, help="the mask")
    cable = verbs.add_parser("cable", help="connect two GPUs by NVLinks instead of switches")
    cable.add_argument("gpu")
    cable.add_argument("other")
    cable.add_argument("--links", type=int, default=1)
    delay = verbs.add_parser("delay")
    delay.add_argument("function")
    delay.add_argument("ms", type=int)
    hang = verbs.add_parser("hang", help="let a function not answer any more")
    hang.add_argument("function", help="its name, or * for all")
    lie = verbs.add_parser("lie", help="let a function store other bytes through an argument")
    lie.add_argument("function")
    lie.add_argument("at", type=int, help="the argument, from 0")
    lie.add_argument("data", help="the bytes, in hexadecimal")
    for verb in (delay, hang, lie):
        verb.add_argument("--gpu", help="the only one that it concerns")
    for verb in verbs.choices.values():
        verb.add_argument(
            "--json", action="store_true", help="one line instead of an indented text"
        )
    return top


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = vars(parser().parse_args(arguments))
    verb, path, one_line = options.pop("verb"), options.pop("socket"), options.pop("json")
    if verb == "board":
        gpus = new_board(options["product"], options["gpus"])
        write_json(options["dir"] / "board.json", {"gpus": [asdict(one) for one in gpus]})
        return
    try:
        client = Client(path)
        result = client.ask(verb, **options)
    except (OSError, ValueError) as error:
        sys.exit(f"nvsimctl: {error}")
    if result is not None:
        print(json.dumps(result, indent=None if one_line else 2), flush=True)
    if verb == "hold":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            signal.pause()
        finally:
            client.ask("release")


if __name__ == "__main__":
    main()
