# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line: serve, or ask the one that serves."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from . import control
from .kubelet import Kubelet

FOLDER = Path("/var/lib/kubelet/device-plugins")
CONTROL = Path("/run/standin-kubelet.sock")


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--control", type=Path, default=CONTROL, help="the control socket (default: %(default)s)"
    )
    common.add_argument("--json", action="store_true", help="print JSON")
    top = argparse.ArgumentParser(prog="standin-kubelet", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, parents=[common], help=text, description=text)

    serve = verb("serve", "Be the kubelet.")
    serve.add_argument(
        "--dir", type=Path, default=FOLDER, help="where plugins register (default: %(default)s)"
    )
    serve.add_argument(
        "--pod-resources",
        type=Path,
        metavar="SOCKET",
        help="where to tell who has what (default: pod-resources/kubelet.sock beside --dir)",
    )
    verb("resources", "List resources and their devices.")
    verb("pods", "List admitted pods and their devices.")
    verb("restart", "Restart: registrations are forgotten, pods stay.")
    admit = verb("admit", "Admit a pod, as a node does before it starts one.")
    admit.add_argument("pod")
    admit.add_argument(
        "--request", action="append", required=True, metavar="RESOURCE=COUNT", help="repeatable"
    )
    verb("release", "Let a pod go.").add_argument("pod")
    wait = verb("wait", "Wait until exactly so many devices of a resource are allocatable.")
    wait.add_argument("resource", metavar="RESOURCE=COUNT")
    wait.add_argument("--timeout", type=float, default=30, metavar="SECONDS")
    return top


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = parser().parse_args(arguments)
    if options.verb == "serve":
        pods = options.pod_resources or options.dir.parent / "pod-resources/kubelet.sock"
        _serve(options.dir, options.control, pods)
        return
    request: dict[str, Any] = {"verb": options.verb}
    if options.verb in ("admit", "release"):
        request["pod"] = options.pod
    if options.verb == "admit":
        request["requests"] = dict(map(_quantity, options.request))
    if options.verb == "wait":
        request["resource"], request["count"] = _quantity(options.resource)
        request["timeout"] = options.timeout
    try:
        result = control.ask(options.control, **request)
    except (OSError, ValueError) as error:
        sys.exit(f"standin-kubelet: {error}")
    print(json.dumps(result, indent=2) if options.json else _text(options.verb, result))


def _quantity(text: str) -> tuple[str, int]:
    name, _mark, count = text.rpartition("=")
    if not name or not count.isdigit():
        sys.exit(f"standin-kubelet: {text!r} is not valid: expected RESOURCE=COUNT")
    return name, int(count)


def _serve(folder: Path, path: Path, pods: Path) -> None:
    kubelet = Kubelet(folder, pods)
    kubelet.start()
    server = control.Control(path, kubelet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    kubelet.stop()


def _text(verb: str, result: Any) -> str:
    if verb in ("resources", "wait"):
        rows = [f"{'RESOURCE':<32}{'CAPACITY':>9}{'ALLOCATABLE':>13}{'ALLOCATED':>11}"]
        rows += [
            f"{name:<32}{one['capacity']:>9}{one['allocatable']:>13}{one['allocated']:>11}"
            for name, one in result.items()
        ]
        if verb == "resources":
            rows += _devices(result)
        return "\n".join(rows)
    if verb == "admit":
        rows = [f"pod {result['pod']} is admitted"]
        rows += [f"  {name}: {', '.join(ids)}" for name, ids in result["devices"].items()]
        rows += [f"  env     {key}={value}" for key, value in result["envs"].items()]
        rows += [
            f"  device  {one['container']} ({one['permissions']})" for one in result["device_nodes"]
        ]
        rows += [f"  mount   {one['host']} -> {one['container']}" for one in result["mounts"]]
        rows += [f"  note    {key}={value}" for key, value in result["annotations"].items()]
        rows += [f"  cdi     {one}" for one in result["cdi_devices"]]
        return "\n".join(rows)
    if verb == "pods":
        return (
            "\n".join(f"{pod}: {json.dumps(given)}" for pod, given in result.items()) or "no pods"
        )
    return "done"


def _devices(resources: Any) -> list[str]:
    found = [
        (name, key, one["health"], ",".join(map(str, one["numa"])) or "-", one["pod"] or "-")
        for name, resource in resources.items()
        for key, one in resource["devices"].items()
    ]
    if not found:
        return []
    rows = [("RESOURCE", "DEVICE", "HEALTH", "NUMA", "POD"), *found]
    wide = [max(len(row[at]) for row in rows) + 2 for at in range(5)]
    return [""] + [
        "".join(text.ljust(wide[at]) for at, text in enumerate(row)).rstrip() for row in rows
    ]
