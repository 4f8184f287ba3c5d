# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ask a runtime for its configuration or its pods over CRI, and print JSON: a program for the device plugin's Python.

The arguments are the runtime's socket, and "pods" for these. Messages are those of kubernetes/cri-api,
runtime/v1/api.proto: of Status, verbose is field 1 of the request and info, a map of texts, field 2 of the answer.
Nothing is printed where nobody answers, "null" where the service is not there, as after a CRI plugin that failed.
"""

from __future__ import annotations

import json
import sys
import typing as t

STATUS = "/runtime.v1.RuntimeService/Status"
VERBOSE = b"\x08\x01"
PODS = "/runtime.v1.RuntimeService/ListPodSandbox"
# A filter (field 1) by the state (2), of which the value that is left out is that of pods that are ready.
READY = b"\x0a\x02\x12\x00"
SECONDS = 10
TEXT = 2  # the wire type of texts and messages


def varint(data: bytes, at: int) -> t.Tuple[int, int]:
    """Return a number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data: bytes) -> t.Iterator[t.Tuple[int, bytes]]:
    """Yield the numbers of a message's fields with texts or messages, and what is in them."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        size, at = varint(data, at)
        if key & 7 == TEXT:
            yield key >> 3, data[at : at + size]
            at += size


def configuration(answer: bytes) -> str:
    """Return the entry "config" of an answer's map, empty if there is none."""
    entries = (dict(fields(value)) for number, value in fields(answer) if number == 2)
    values = {entry.get(1): entry.get(2, b"") for entry in entries}
    return values.get(b"config", b"").decode()


def pods(answer: bytes) -> str:
    """Return the pods of an answer, each as its namespace with its name, and its handler, as JSON."""
    items = (dict(fields(value)) for number, value in fields(answer) if number == 1)
    uids = []
    for item in items:
        metadata = dict(fields(item.get(2, b"")))
        namespace, name = (metadata.get(number, b"").decode() for number in (3, 1))
        uids.append((f"{namespace}/{name}", item.get(7, b"").decode()))
    return json.dumps(uids)


def main() -> None:
    """Print what is asked for."""
    import grpc  # of the device plugin's environment

    asks_for_pods = sys.argv[2:] == ["pods"]
    channel = grpc.insecure_channel(f"unix://{sys.argv[1]}")
    call = channel.unary_unary(PODS if asks_for_pods else STATUS, None, None)
    try:
        answer = call(READY if asks_for_pods else VERBOSE, timeout=SECONDS)
        sys.stdout.write((pods if asks_for_pods else configuration)(answer))
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            sys.stdout.write("null")


if __name__ == "__main__":
    main()
