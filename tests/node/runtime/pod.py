# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a node: run a command in a pod through containerd's CRI, as a kubelet would, and print what it prints.

Arguments: an image, a JSON list of CDI devices, a handler or an empty text, and the command. Needs grpcio, so the
device plugin's Python.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import grpc

SOCKET = "unix:///run/containerd/containerd.sock"
DRIVER = "/run/nvsim"  # where the simulated driver is called
SECONDS = 30
NODE_NETWORK = 2
RUNNING = 1


def encode(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a protobuf message from its fields."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def identifier(answer: bytes) -> str:
    """Return the first field of an answer, which is a short text."""
    return answer[2 : 2 + answer[1]].decode()


def main(image: str, devices: list[str], handler: str, command: list[str]) -> None:
    channel = grpc.insecure_channel(SOCKET)

    def call(name: str, *fields: tuple[int, int | str | bytes]) -> bytes:
        method = channel.unary_unary(f"/runtime.v1.RuntimeService/{name}")
        answer: bytes = method(encode(*fields), timeout=SECONDS)
        return answer

    logs = tempfile.mkdtemp(prefix="pod-")
    name = Path(logs).name
    namespaces = encode((1, NODE_NETWORK))
    linux = encode((2, encode((1, namespaces))))
    config = encode((1, encode((1, name), (2, name), (3, "default"))), (3, logs), (8, linux))
    chosen = [(2, handler)] if handler else []
    pod = identifier(call("RunPodSandbox", (1, config), *chosen))
    try:
        container = encode(
            (1, encode((1, "main"))),
            (2, encode((1, image))),
            *((3, word) for word in command),
            (7, encode((1, DRIVER), (2, DRIVER))),
            (11, "log"),
            *((17, encode((1, device))) for device in devices),
        )
        made = identifier(call("CreateContainer", (1, pod), (2, container), (3, config)))
        call("StartContainer", (1, made))
        deadline = time.monotonic() + SECONDS
        only_running = encode((1, made), (2, encode((1, RUNNING))))
        while call("ListContainers", (1, only_running)):
            if time.monotonic() > deadline:
                sys.exit("the container does not end")
            time.sleep(0.1)
        for line in (Path(logs) / "log").read_text().splitlines():
            print(line.split(" ", 3)[3])
    finally:
        call("StopPodSandbox", (1, pod))
        call("RemovePodSandbox", (1, pod))
        shutil.rmtree(logs)


main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:])
