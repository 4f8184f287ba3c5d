# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The control socket: one JSON request a line, one JSON answer a line; for root only."""

from __future__ import annotations

import json
import os
import socket
import socketserver
from pathlib import Path
from typing import Any

from .devices import AdmissionError, KubeletError
from .kubelet import Kubelet


class Control(socketserver.ThreadingUnixStreamServer):
    """Serves the command line."""

    daemon_threads = True

    def __init__(self, path: Path, kubelet: Kubelet) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}")  # who waits for the name may connect at once
        new.unlink(missing_ok=True)
        old = os.umask(0o077)
        try:
            super().__init__(str(new), _Handler)
        finally:
            os.umask(old)
        new.replace(path)
        self.kubelet = kubelet


class _Handler(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        for line in self.rfile:
            answer: dict[str, Any]
            try:
                answer = {"result": _carry_out(self.server.kubelet, json.loads(line))}
            except AdmissionError as error:
                answer = {"error": f"UnexpectedAdmissionError: {error}"}
            except KubeletError as error:
                answer = {"error": str(error)}
            except (KeyError, TypeError, ValueError) as error:
                answer = {"error": f"{line!r} is not a valid request: {error!r}"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _carry_out(kubelet: Kubelet, request: dict[str, Any]) -> Any:
    match request["verb"]:
        case "resources":
            return kubelet.ledger.describe()
        case "pods":
            return kubelet.ledger.holders()
        case "admit":
            return kubelet.admit(request["pod"], request["requests"])
        case "release":
            return kubelet.ledger.take_back(request["pod"])
        case "restart":
            return kubelet.restart()
        case "wait":
            return kubelet.wait(request["resource"], request["count"], request["timeout"])
        case verb:
            raise KubeletError(f"unknown verb {verb}")


def ask(path: Path, **request: Any) -> Any:
    """Send a request; ValueError carries the kubelet's complaint."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(str(path))
        stream.sendall(json.dumps(request).encode() + b"\n")
        line = stream.makefile().readline()
    if not line:
        raise ValueError("the kubelet stopped before it answered")
    answer = json.loads(line)
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["result"]
