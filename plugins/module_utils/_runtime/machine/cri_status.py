# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ask a runtime for its configuration over CRI, and print it as JSON: a program for the device plugin's Python.

The argument is the runtime's socket. Status is called as kubernetes/cri-api, runtime/v1/api.proto, has it: verbose
is field 1 of the request, info field 2 of the answer, a map of texts. Nothing is printed where nobody answers, "null"
where the service is not there, as after a CRI plugin that failed to start.
"""

from __future__ import annotations

import sys
import typing as t

METHOD = "/runtime.v1.RuntimeService/Status"
VERBOSE = b"\x08\x01"
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
    """Return the entry "config" of an answer's map, empty where there is none."""
    entries = (dict(fields(value)) for number, value in fields(answer) if number == 2)
    found = {entry.get(1): entry.get(2, b"") for entry in entries}
    return found.get(b"config", b"").decode()


def main() -> None:
    """Print the configuration."""
    import grpc  # of the device plugin's environment

    channel = grpc.insecure_channel(f"unix://{sys.argv[1]}")
    call = channel.unary_unary(METHOD, None, None)
    try:
        sys.stdout.write(configuration(call(VERBOSE, timeout=SECONDS)))
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            sys.stdout.write("null")


if __name__ == "__main__":
    main()
