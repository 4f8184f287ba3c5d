# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The HTTP endpoint under clients that want to be in others' way."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest
from gpu_plugin.report import endpoint

from tests.fakes.daemon import scraping
from tests.support.waiting import LIMIT, eventually

ATTACKER, OTHER = "127.0.0.2", "127.0.0.1"
LARGE = 8 * 2**20  # more than the kernel takes of an answer that nobody reads
Connect = Callable[[str], socket.socket]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """An endpoint whose clients have more time than any test takes."""
    monkeypatch.setattr(endpoint, "SECONDS", 10 * LIMIT)

    def broken() -> tuple[HTTPStatus, str, bytes]:
        raise ValueError("by order of the test")

    pages = {
        "/healthz": lambda: (HTTPStatus.OK, "text/plain", b"ok\n"),
        "/large": lambda: (HTTPStatus.OK, "text/plain", b"x" * LARGE),
        "/broken": broken,
    }
    address = scraping.free_address()
    one = endpoint.Endpoint(address, pages)
    thread = threading.Thread(target=one.serve, daemon=True)
    thread.start()
    yield address
    one.end()
    thread.join(LIMIT)
    assert not thread.is_alive()


@pytest.fixture
def connect(server: tuple[str, int]) -> Iterator[Connect]:
    """Connect from an address without waiting for it, and stay so until the end."""
    with contextlib.ExitStack() as stack:

        def begin(source: str) -> socket.socket:
            client = stack.enter_context(socket.socket())
            client.bind((source, 0))
            client.setblocking(False)
            client.connect_ex(server)
            return client

        yield begin


def ask(server: tuple[str, int], source: str, path: str = "/healthz") -> tuple[int, bytes]:
    """Return status and content; 0 where there is none."""
    client = http.client.HTTPConnection(*server, timeout=LIMIT, source_address=(source, 0))
    try:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        client.close()


@pytest.mark.attack("silent-metrics-client")
@pytest.mark.parametrize("prober", [OTHER, ATTACKER], ids=["another's address", "the same address"])
def test_silent_clients_starve_no_probe(
    server: tuple[str, int], connect: Connect, prober: str
) -> None:
    silent = [connect(ATTACKER) for _number in range(100)]
    for _time in range(5):
        assert ask(server, prober) == (200, b"ok\n")
        for client in silent[:20]:  # one drop each, as a slow request has them
            with contextlib.suppress(OSError):
                client.send(b"G")
        silent += [connect(ATTACKER) for _number in range(20)]


@pytest.mark.attack("silent-metrics-client")
def test_those_who_do_not_read_starve_no_probe(server: tuple[str, int], connect: Connect) -> None:
    clients = [connect(ATTACKER) for _number in range(20)]
    for client in clients:
        select.select([], [client], [], LIMIT)
        with contextlib.suppress(OSError):
            client.send(b"GET /large HTTP/1.1\r\n\r\n")
    for _time in range(5):
        assert ask(server, OTHER) == (200, b"ok\n")


@pytest.mark.attack("silent-metrics-client")
def test_a_request_has_to_end_in_time_as_a_whole(
    server: tuple[str, int], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "SECONDS", 0.5)
    client = connect(ATTACKER)

    def dropped() -> bool:
        try:
            client.send(b"G")  # always something within any time that one drop may take
        except ConnectionError:
            return True
        return False

    eventually(dropped)
    eventually(lambda: ask(server, OTHER)[0], 200)


@pytest.mark.attack("silent-metrics-client")
def test_one_client_has_few_connections(server: tuple[str, int], connect: Connect) -> None:
    first = connect(ATTACKER)
    first.settimeout(LIMIT)
    first.sendall(b"GET /heal")
    others = [connect(ATTACKER) for _number in range(2 * endpoint.EACH)]
    assert ask(server, OTHER)[0] == 200
    assert others
    with contextlib.suppress(ConnectionResetError):
        assert first.recv(100) == b""  # it made room, before its time was over


def test_a_head_that_is_too_long_is_refused(server: tuple[str, int], connect: Connect) -> None:
    client = connect(OTHER)
    client.settimeout(LIMIT)
    client.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (endpoint.LONGEST - 26))
    assert b" 431 " in client.recv(100)


def test_a_page_that_fails_is_said_once(
    server: tuple[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    for _time in range(5):
        assert ask(server, OTHER, "/broken")[0] == 500
    assert capfd.readouterr().err.count("a page could not be made page=/broken") == 1


def test_a_large_answer_comes_whole_and_is_no_error(
    server: tuple[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    for _time in range(3):
        status, content = ask(server, OTHER, "/large")
        assert (status, len(content)) == (200, LARGE)
    assert ask(server, OTHER) == (200, b"ok\n")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("request_line", "status"),
    {
        b"GET /healthz HTTP/1.1": 200,
        b"GET /healthz?a=1 HTTP/1.0": 200,
        b"HEAD /healthz HTTP/1.1": 200,
        b"GET /nowhere HTTP/1.1": 404,
        b"GET /broken HTTP/1.1": 500,
        b"POST /healthz HTTP/1.1": 501,
        b"GET /healthz": 400,
        b"\x16\x03\x01 \xff x": 400,
        b"": 400,
    }.items(),
)
def test_each_request_has_its_answer(
    server: tuple[str, int], connect: Connect, request_line: bytes, status: int
) -> None:
    client = connect(OTHER)
    client.settimeout(LIMIT)
    client.sendall(request_line + b"\r\n\r\n")
    answer = b""
    while part := client.recv(1000):
        answer += part
    head, _blank, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (content == b"") == request_line.startswith(b"HEAD")
    assert ask(server, OTHER)[0] == 200
