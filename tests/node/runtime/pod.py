# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a node: run a command in a pod through containerd's CRI, as a kubelet would, and print what it prints.

Arguments: an image, a JSON list of CDI devices, a handler or an empty text, and the command. Needs grpcio, so the
device plugin's Python.
"""

from __future__ import annotations

import json
import os
import sys

import grpc

SOCKET = "unix:///run/containerd/containerd.sock"
DRIVER = "/run/nvsim"  # where the simulated driver is called
SECONDS = 300  # end a hang
NODE_NETWORK = 2
WAITS = ("/usr/bin/sleep", "infinity")  # what the container does until the command has run in it


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


def first(answer: bytes) -> bytes:
    """Return the first field of an answer where it is a text, else nothing."""
    if not answer or answer[0] != 1 << 3 | 2:
        return b""
    length, at, shift = 0, 1, 0
    while True:
        length |= (answer[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if answer[at - 1] < 128:
            return answer[at : at + length]


def identifier(answer: bytes) -> str:
    return first(answer).decode()


def main(image: str, devices: list[str], handler: str, command: list[str]) -> None:
    channel = grpc.insecure_channel(SOCKET)

    def call(name: str, *fields: tuple[int, int | str | bytes]) -> bytes:
        method = channel.unary_unary(f"/runtime.v1.RuntimeService/{name}")
        answer: bytes = method(encode(*fields), timeout=SECONDS)
        return answer

    name = f"pod-{os.getpid()}"
    namespaces = encode((1, NODE_NETWORK))
    linux = encode((2, encode((1, namespaces))))
    config = encode((1, encode((1, name), (2, name), (3, "default"))), (8, linux))
    chosen = [(2, handler)] if handler else []
    pod = identifier(call("RunPodSandbox", (1, config), *chosen))
    try:
        container = encode(
            (1, encode((1, "main"))),
            (2, encode((1, image))),
            *((3, word) for word in WAITS),
            (7, encode((1, DRIVER), (2, DRIVER))),
            *((17, encode((1, device))) for device in devices),
        )
        made = identifier(call("CreateContainer", (1, pod), (2, container), (3, config)))
        call("StartContainer", (1, made))
        answer = call("ExecSync", (1, made), *((2, word) for word in command))
        print(first(answer).decode(), end="")
    finally:
        call("StopPodSandbox", (1, pod))
        call("RemovePodSandbox", (1, pod))


main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:])
