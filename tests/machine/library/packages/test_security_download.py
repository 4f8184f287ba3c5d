# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A hostile mirror can't fill the node's disk, keep it waiting for ever, or have it stay on old packages."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages import (
    repository as package_repository,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.repository import Place
from ansible_collections.gpu.node.plugins.module_utils._machine import download

from tests.fakes.clock import Clock
from tests.support import waiting

Answer = Callable[["Mirror"], None]
SHA256 = "0" * 64
MIB = 1 << 20
LIMIT, ENOUGH = 4 * MIB, 64 * MIB  # a mirror that never ends is cut off by the test some time


class Mirror(http.server.BaseHTTPRequestHandler):
    """Answers as it likes, and counts what was taken of it."""

    answer: Answer
    sent = 0

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            type(self).answer(self)

    def send(self, data: bytes) -> None:
        self.wfile.write(data)
        type(self).sent += len(data)

    def log_message(self, *_values: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def mirror(answer: Answer) -> Iterator[tuple[str, type[Mirror]]]:
    """Serve on a port; yield an address and the class that counts."""
    kind = type("Hostile", (Mirror,), {"answer": staticmethod(answer)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/driver.run", kind
        server.shutdown()


def refused(address: str, folder: Path) -> str:
    target = folder / "driver.run"
    target.write_text("as it was")
    with pytest.raises(NodeError) as caught:
        download.bring(address, str(target), SHA256)
    assert [path.name for path in folder.iterdir()] == ["driver.run"]
    assert target.read_text() == "as it was"
    return str(caught.value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", LIMIT, raising=False)


@pytest.mark.attack("endless-or-frozen-mirror")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("head", [{}, {"Content-Length": "1000"}, {"Transfer-Encoding": "chunked"}])
def test_a_file_that_never_ends_is_given_up_early(tmp_path: Path, head: dict[str, str]) -> None:
    def endless(one: Mirror) -> None:
        one.protocol_version = "HTTP/1.1"
        one.send_response(200)
        for name, value in head.items():
            one.send_header(name, value)
        one.send_header("Connection", "close")
        one.end_headers()
        block = bytes(MIB)
        while one.sent < ENOUGH:
            one.send(b"100000\r\n" + block + b"\r\n" if "Transfer-Encoding" in head else block)

    with mirror(endless) as (address, kind):
        message = refused(address, tmp_path)
    assert kind.sent < ENOUGH
    if "Content-Length" not in head:
        assert f"more than {LIMIT} bytes" in message
        assert "Next step" in message


@pytest.mark.attack("endless-or-frozen-mirror")
def test_a_file_that_says_it_is_too_big_is_not_begun(tmp_path: Path) -> None:
    def huge(one: Mirror) -> None:
        one.send_response(200)
        one.send_header("Content-Length", str(10**13))
        one.end_headers()
        one.send(bytes(MIB))

    with mirror(huge) as (address, _kind):
        message = refused(address, tmp_path)
    assert "it has 10000000000000 bytes" in message
    assert f"more than {download.MAX_BYTES}" in message


@pytest.mark.attack("endless-or-frozen-mirror")
def test_a_compressed_answer_counts_as_what_it_becomes(tmp_path: Path, small: None) -> None:
    import gzip

    packed = gzip.compress(bytes(ENOUGH))

    def bomb(one: Mirror) -> None:
        one.send_response(200)
        one.send_header("Content-Encoding", "gzip")
        one.send_header("Content-Length", str(len(packed)))
        one.end_headers()
        one.send(packed)

    with mirror(bomb) as (address, _kind):
        assert f"more than {LIMIT} bytes" in refused(address, tmp_path)


class TenMinutes(Clock):
    """A clock that is ten minutes on whenever it was looked at, which is what a drop waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = threading.Semaphore(0)

    def monotonic(self) -> float:
        self.now += 600
        self.looks.release()
        return self.now


@pytest.mark.attack("endless-or-frozen-mirror")
def test_a_mirror_that_drips_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = TenMinutes()
    monkeypatch.setattr(download, "time", clock)

    def drip(one: Mirror) -> None:
        one.send_response(200)
        one.end_headers()
        for _drop in range(8):
            assert clock.looks.acquire(timeout=waiting.LIMIT)
            one.send(b".")

    with mirror(drip) as (address, _kind):
        assert "has taken longer than 3600 s" in refused(address, tmp_path)


PLACE = Place.of("test", "Test", "test")
VALUES: dict[str, Any] = {
    "url": "http://mirror/rpm",
    "key": "/root/key.asc",
    "key_fingerprints": ["0" * 40],
    "suite": "/",
    "components": [],
    "signed_metadata": False,
}


@pytest.mark.attack("endless-or-frozen-mirror")
@pytest.mark.parametrize("family", ["rhel", "suse"])
def test_unsigned_lists_do_not_come_over_http(family: str) -> None:
    repository = package_repository.parse(VALUES)
    with pytest.raises(
        InputError, match=r"repository\.url: 'http://mirror/rpm'.*https.*plain_http"
    ):
        package_repository.files(repository, PLACE, family, ())


@pytest.mark.attack("endless-or-frozen-mirror")
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("debian", {}),
        ("rhel", {"url": "https://mirror/rpm"}),
        ("rhel", {"url": "file:///srv/rpm"}),
        ("suse", {"signed_metadata": True}),
        ("rhel", {"plain_http": True}),
    ],
)
def test_signed_or_private_lists_may_come(family: str, changes: dict[str, Any]) -> None:
    repository = package_repository.parse({**VALUES, **changes})
    assert package_repository.files(repository, PLACE, family, ())
