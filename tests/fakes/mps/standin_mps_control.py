# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for nvidia-cuda-mps-control, for what the genuine one tells only with CUDA.

It has one server (4242) with two clients, or with STANDIN_CLIENTS those processes that hold a
connection to the socket ``server``, which a quit waits for. STANDIN_DEAF makes it take a memory
limit without effect, STANDIN_BUSY makes its clients stay until a quit's time is over. STANDIN_TAKES
has the options that it takes beside -f, or "any"; any other makes it ask, as the genuine one does.
STANDIN_SERVER is a file that names another server, which is ended when that is asked for.
STANDIN_MOOD is a file with how it answers now; each way is one of the genuine program, seen or possible:
"lost" as when two ask at once, nothing with status 1, "hangs" for as long as the file says so, "before" and
"lines" with another line before or behind its answer, as a newer program may have, "refuse" with "Invalid" and
status 0; with "fault" a client's fault has ended its server for all. After a UUID the mood is that device's alone.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

# It is started for each question, so only the daemon imports what takes longer than to start Python.
PIPE = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
SOCKET = f"{PIPE}/control"
REAL = bool(os.environ.get("STANDIN_CLIENTS"))
CLIENTS: list[int] = [] if REAL else [7, 9]
PAUSE = 0.05


def words(variable: str) -> list[str]:
    """Return what is in the file that a variable names."""
    try:
        with open(os.environ[variable]) as stream:
            return stream.read().split()
    except (KeyError, OSError):
        return []


def mood() -> str:
    told = words("STANDIN_MOOD")
    return (
        told[-1] if told and told[:1] in (told[-1:], [os.environ["CUDA_VISIBLE_DEVICES"]]) else ""
    )


def servers() -> list[int]:
    if "STANDIN_SERVER" not in os.environ:
        return [4242]
    return [int(pid) for pid in words("STANDIN_SERVER") if os.path.exists(f"/proc/{pid}")]


def serve_clients() -> None:
    import socket
    import subprocess
    import threading

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{PIPE}/server")
    listener.listen()
    if "STANDIN_MOOD" in os.environ:  # a server, as the genuine one has where there are clients
        subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        channel, _address = listener.accept()
        threading.Thread(target=keep_client, args=(channel,), daemon=True).start()


def keep_client(channel: socket.socket) -> None:
    import struct

    credentials = channel.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", credentials)[0]
    CLIENTS.append(pid)
    channel.recv(1)  # until it goes
    CLIENTS.remove(pid)


def drain(seconds: float) -> None:
    """Wait for the clients' end, at most for so long."""
    for _look in range(round(seconds / PAUSE)):
        if not (REAL and CLIENTS) and not os.environ.get("STANDIN_BUSY"):
            break
        pause()


def pause() -> None:
    select.select((), (), (), PAUSE)


def serve() -> None:
    import contextlib
    import signal
    import socket
    import threading

    limits = {"default_active_thread_percentage": "100.0", "default_device_pinned_mem_limit 0": ""}

    def limit(name: str) -> str:
        """Return a default, or a server's own limit, which is the default until somebody sets it."""
        kind, *of = name.split(" ")
        return limits.get(name) or limits.get(" ".join([f"default_{kind}", *of[1:]]), "")

    if REAL:
        threading.Thread(target=serve_clients, daemon=True).start()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen()
    while True:
        channel, _address = listener.accept()
        gone = contextlib.suppress(OSError)  # who asked and would not wait for the answer
        with gone, channel, channel.makefile("r") as questions, channel.makefile("w") as stream:
            for line in questions:
                verb, _underscore, rest = line.strip().partition("_")
                name, _space, value = rest.rpartition(" ")
                if verb == "set" and not (os.environ.get("STANDIN_DEAF") and "mem" in name):
                    limits[name] = value
                elif verb == "get" and limit(rest):
                    stream.write(f"{limit(rest)}\n")
                elif rest == "server_list":
                    stream.write("".join(f"{pid}\n" for pid in servers()))
                elif name == "server_status":
                    stream.write("FAULT\n" if mood() == "fault" else "ACTIVE\n")
                elif name == "client_list":
                    stream.write("".join(f"{pid}\n" for pid in CLIENTS))
                elif verb == "shutdown" and int(value) in servers():
                    print(f"told to {line.strip()}", flush=True)
                    if not CLIENTS:
                        os.kill(int(value), signal.SIGKILL)
                elif line.startswith("quit -t "):
                    print(f"told to {line.strip()}", flush=True)
                    drain(float(line.split()[2]))
                    print("ended by itself", flush=True)
                    return


def ask() -> None:
    how = mood()
    if how == "lost":
        sys.exit(1)
    while how == "hangs" == mood():
        pause()
    if how == "refuse":
        sys.exit(print("Invalid value"))
    if how == "before":
        print("MPS control daemon 999.1")
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.connect(SOCKET)
    except OSError:
        sys.exit("Cannot find MPS control daemon process")
    channel.sendall(sys.stdin.read().encode())
    channel.shutdown(_socket.SHUT_WR)
    while data := channel.recv(4096):
        sys.stdout.write(data.decode())
    if how == "lines":
        print("Done")


if __name__ == "__main__":
    taken = os.environ.get("STANDIN_TAKES", "").split()
    unknown = {*sys.argv[2:]} - {*taken} if taken != ["any"] else set()
    serve() if sys.argv[1:2] == ["-f"] and not unknown else ask()
