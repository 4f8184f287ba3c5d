# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon: the kernel side of the simulated driver, behind a unix socket.

A connection begins with 64 bytes: the client library's version, or ``control`` for nvsimctl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from . import api, codes, control
from .call import FUNCTIONS, Call, unsupported
from .codes import NvError
from .engine import Client, Engine
from .handles import CI, GI, GPU, MIG, decode
from .since import there
from .state import Store

GREETING = 64
CONTROL = "control"
OF_GPU = (GPU, MIG, GI, CI)
BY_INDEX = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
BY_TEXT = ("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleBySerial")
BLOCKING = ("nvmlEventSetWait", "nvmlEventSetWait_v2")

log = logging.getLogger("nvsim")


class Server:
    """Accepts clients, each in a thread of its own."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self.engine = engine
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.socket.bind(str(path))
        path.chmod(0o666)  # like /dev/nvidiactl: who may do what is decided by the caller's uid
        self.socket.listen(128)

    def serve(self) -> None:
        """Accept until the process ends."""
        while True:
            client, _address = self.socket.accept()
            threading.Thread(target=self._client, args=(client,), daemon=True).start()

    def _client(self, client: socket.socket) -> None:
        pid, uid, _gid = struct.unpack(
            "iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        with client, contextlib.suppress(ConnectionError, EOFError):
            greeting = _read(client, GREETING).rstrip(b"\0").decode()
            if greeting == CONTROL:
                self._control(client, pid)
                return
            with self._opens(pid) as opened:
                while True:
                    (length,) = struct.unpack("<I", _read(client, 4))
                    client.sendall(self._answer(_read(client, length), greeting, opened, uid))

    @contextlib.contextmanager
    def _opens(self, pid: int) -> Iterator[Client]:
        """Know for a with statement which GPUs a connection has opened."""
        found = Client(pid)
        with self.engine.lock:
            self.engine.clients.add(found)
        try:
            yield found
        finally:
            with self.engine.lock:
                self.engine.clients.discard(found)

    def _control(self, client: socket.socket, pid: int) -> None:
        with client.makefile("rw", encoding="utf-8") as stream:
            for line in stream:
                try:
                    answer = control.carry_out(self.engine, json.loads(line), pid)
                except Exception as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(answer) + "\n")
                stream.flush()
        with self.engine.lock:
            control.release(self.engine, {}, pid)

    def _answer(self, request: bytes, version: str, client: Client, uid: int) -> bytes:
        name_length = request[0]
        name = request[1 : 1 + name_length].decode()
        at = 1 + name_length
        words = struct.unpack_from("<6Q", request, at)
        call = Call(self.engine, words, _inputs(request, at + 48), client.pid, uid)
        try:
            code = self._run(name, call, version)
        except NvError as error:
            code = error.code
        except Exception:
            log.exception("%s failed", name)
            code = codes.UNKNOWN
        # A list that is too long says how long it is; every other failure stores nothing.
        stores = call.stores if code in (codes.SUCCESS, codes.INSUFFICIENT_SIZE) else []
        log.debug("%s %s -> %d", name, words, code)
        with self.engine.lock:
            self.engine.answered[client.pid, name, code] += 1
            if code == codes.SUCCESS and self.engine.store.driver is not None:
                client.gpus |= {self.engine.gpu(one).board.uuid for one in call.opened}
        body = struct.pack("<iB", code, len(stores))
        body += b"".join(struct.pack("<BI", where, len(data)) + data for where, data in stores)
        return struct.pack("<I", len(body)) + body

    def _run(self, name: str, call: Call, version: str) -> int:
        with self.engine.lock:
            self.engine.running += 1
        try:
            return self._carry_out(name, call, version)
        finally:
            with self.engine.lock:
                self.engine.running -= 1

    def _carry_out(self, name: str, call: Call, version: str) -> int:
        engine = self.engine
        gpu = _gpu_of(name, call)
        with engine.lock:
            engine.called[name, gpu] += 1
        engine.linger(name, gpu)
        if name in BLOCKING:
            with engine.lock:
                engine.play_fault(name, None)
            FUNCTIONS[name](call)
            return codes.SUCCESS
        with engine.lock:
            if engine.store.driver is None:
                raise NvError(codes.DRIVER_NOT_LOADED)
            if engine.store.driver.version != version:
                raise NvError(codes.VERSION_MISMATCH)
            if not there(name, version):
                raise NvError(codes.FUNCTION_NOT_FOUND)
            engine.play_fault(name, gpu)
            FUNCTIONS.get(name, unsupported)(call)
            if lie := engine.lies.get((name, gpu)) or engine.lies.get((name, None)):
                call.stores = [one for one in call.stores if one[0] != lie.at]
                call.put(lie.at, lie.data)
        return codes.SUCCESS


def _gpu_of(name: str, call: Call) -> str | None:
    """Return the UUID of the GPU that a call is about, if its first argument says so."""
    with call.engine.lock:
        if name in BY_TEXT:
            wanted = call.text(0)
            gpus = {one.board.uuid: one.board for one in call.engine.store.gpus()}
            return next((uuid for uuid, one in gpus.items() if wanted in (uuid, one.serial)), None)
        try:
            index = call.u32(0) if name in BY_INDEX else decode(call.words[0], *OF_GPU).gpu
            return call.engine.gpu(index).board.uuid
        except NvError:
            return None


def _read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _inputs(request: bytes, at: int) -> dict[int, bytes]:
    found = {}
    count, at = request[at], at + 1
    for _item in range(count):
        where, size = struct.unpack_from("<BI", request, at)
        found[where] = request[at + 5 : at + 5 + size]
        at += 5 + size
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the daemon."""
    parser = argparse.ArgumentParser(prog="nvsimd", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path("/var/lib/nvsim"))
    parser.add_argument("--run-dir", type=Path, default=Path("/run/nvsim"))
    parser.add_argument("--root", help="show the hardware below this prefix (/ on a node)")
    parser.add_argument("--autoload", metavar="VERSION:FLAVOUR", help="load this driver if none is")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.INFO, stream=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    store = Store(options.state_dir, options.run_dir)
    store.load()
    engine = Engine(store, options.root)
    if options.autoload and store.driver is None:
        store.load_driver(*options.autoload.split(":"))
    server = Server(engine, options.run_dir / "nvsim.sock")
    engine.render()
    log.info("%d functions, %d GPUs", len(FUNCTIONS), len(store.board))
    _ready()
    server.serve()


def _ready() -> None:
    """Tell systemd."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)


__all__ = ["Server", "api", "main"]

if __name__ == "__main__":
    main()
