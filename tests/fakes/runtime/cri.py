# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A client of a container runtime over CRI, as a kubelet is one: kubernetes/cri-api, runtime/v1/api.proto."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.cri_status import fields
from nvsim import genuine

from tests.support.waiting import LIMIT

SERVICE = "/runtime.v1.RuntimeService/"
CONTAINER, NODE = 1, 2  # of NamespaceMode
RUNNING = 1  # of ContainerState
SLEEP = ("/bin/sleep", "98765")
Value = int | str | bytes


def encode(*values: tuple[int, Value]) -> bytes:
    """Return a message of fields by their numbers."""
    out = b""
    for number, value in values:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


class Pods:
    """The pods of a runtime, each with one container that sleeps, in the host's network."""

    def __init__(self, socket: Path, image: str) -> None:
        self._socket, self._image = socket, image

    def _call(self, name: str, *values: tuple[int, Value]) -> bytes:
        with grpc.insecure_channel(f"unix://{self._socket}") as channel:
            method = channel.unary_unary(SERVICE + name)
            answer: bytes = method(encode(*values), timeout=LIMIT, wait_for_ready=True)
            return answer

    def start(self, name: str, handler: str = "", *, devices: Sequence[str] = ()) -> None:
        """Start a pod, under a handler if one is named; its container has devices by their CDI names."""
        security = encode((1, encode((1, NODE), (2, CONTAINER))))
        metadata = encode((1, name), (2, name), (3, "default"))
        config = encode((1, metadata), (8, encode((2, security))))
        runtime = [(2, handler)] if handler else []
        pod = _identifier(self._call("RunPodSandbox", (1, config), *runtime))
        container = encode(
            (1, encode((1, name))),
            (2, encode((1, self._image), (18, self._image))),
            *((3, word) for word in SLEEP),
            *((17, encode((1, device))) for device in devices),
            (15, encode((2, encode((3, encode((1, NODE), (2, CONTAINER))))))),
        )
        made = self._call("CreateContainer", (1, pod), (2, container), (3, config))
        self._call("StartContainer", (1, _identifier(made)))

    def running(self) -> set[str]:
        """Return the names of the containers of which the runtime says that they run."""
        answer = self._call("ListContainers", (1, encode((2, encode((1, RUNNING))))))
        return {_metadata_name(one, 3) for one in _messages(answer)}

    def execute(self, name: str, *command: str) -> str:
        """Return what a command prints in the container of a pod."""
        containers = _messages(self._call("ListContainers"))
        (container,) = (one[1] for one in containers if _metadata_name(one, 3) == name)
        answer = self._call("ExecSync", (1, container), *((2, word) for word in command))
        return dict(fields(answer)).get(1, b"").decode()

    def end(self, *names: str) -> None:
        """End pods and remove them, all if none is named. A container alone ignores SIGTERM, and so it is killed."""
        for container in _messages(self._call("ListContainers")):
            if not names or _metadata_name(container, 3) in names:
                self._call("StopContainer", (1, container[1]))
        for pod in _messages(self._call("ListPodSandbox")):
            if not names or _metadata_name(pod, 2) in names:
                self._call("StopPodSandbox", (1, pod[1]))
                self._call("RemovePodSandbox", (1, pod[1]))


def _messages(answer: bytes) -> Iterator[dict[int, bytes]]:
    return (dict(fields(value)) for number, value in fields(answer) if number == 1)


def _metadata_name(message: dict[int, bytes], number: int) -> str:
    return dict(fields(message[number]))[1].decode()


def _identifier(answer: bytes) -> str:
    return dict(fields(answer))[1].decode()


def docker_archive(name: str) -> bytes:
    """Return an image of that tree under a name, as ``docker save`` writes it."""
    layer = tree()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": {"Cmd": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    return _archive({name: (data, 0o644) for name, data in files.items()})


def tree() -> bytes:
    """Return the files of an image that has nothing but a sleep and a pause, as an archive."""
    busybox = genuine.program("busybox-static", "busybox").read_bytes()
    pause = b"#!/bin/busybox sh\nexec /bin/busybox sleep 98764\n"
    files = {"bin/sleep": busybox, "bin/busybox": busybox, "pause": pause}
    return _archive({name: (data, 0o755) for name, data in files.items()})


def _archive(files: dict[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
