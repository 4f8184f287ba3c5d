# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Connections to the webhook, of API servers and of strangers."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable

import pytest
from gpu_cluster.webhook import limits as bounds

from tests.fakes.kubernetes.webhook_serving import LOCAL, PATH, Running, asked
from tests.support.waiting import LIMIT, eventually

CHUNK = 4096


def wait_for_the_end(channel: socket.socket) -> None:
    """Wait until the other side ends a connection."""
    channel.settimeout(LIMIT)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        assert channel.recv(1) == b""


def _plain(running: Running) -> socket.socket:
    return socket.create_connection((LOCAL, running.port))


def _secret(running: Running) -> socket.socket:
    return running.context.wrap_socket(_plain(running), server_hostname=LOCAL)


def _headers(running: Running) -> socket.socket:
    channel = _secret(running)
    channel.sendall(f"POST /{PATH} HTTP/1.1\r\nX: ".encode())
    return channel


@pytest.mark.attack("review-that-never-ends")
@pytest.mark.parametrize("connect", [_plain, _secret, _headers])
def test_who_asks_nothing_is_dropped(
    connect: Callable[[Running], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "FIRST", 0.2)
    running = Running()
    try:
        # On a busy machine it may be dropped during the handshake already.
        with contextlib.suppress(ConnectionError, ssl.SSLError), connect(running) as channel:
            wait_for_the_end(channel)
        eventually(lambda: answered(running))
    finally:
        running.stop()


def answered(running: Running) -> bool:
    try:
        return running.ask(asked())[0] == 200
    except OSError:
        return False


def answered_by(channel: socket.socket) -> bytes:
    channel.settimeout(LIMIT)
    channel.sendall(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
    return channel.recv(12)


@pytest.mark.attack("webhook-filled-by-strangers")
@pytest.mark.parametrize("connect", [_plain, _secret])
def test_the_oldest_of_too_many_is_dropped(
    running: Running,
    connect: Callable[[Running], socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MOST_CONNECTIONS", 2)
    channels = [connect(running), *(_secret(running) for _each in range(2))]
    wait_for_the_end(channels[0])
    for one in channels[1:]:
        assert answered_by(one) == b"HTTP/1.1 404"
    for one in channels:
        one.close()


@pytest.mark.attack("webhook-filled-by-strangers")
def test_a_connection_of_an_api_server_is_kept_whoever_else_comes(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_CONNECTIONS", 3)
    kept = [running.connection() for _each in range(2)]
    for _round in range(2):
        for one in kept:
            one.request("POST", f"/{PATH}", asked())
            answer = one.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)
        strangers = [_secret(running) for _each in range(6)]
        for stranger in strangers[:-1]:
            wait_for_the_end(stranger)
        for stranger in strangers:
            stranger.close()
    more = [running.connection() for _each in range(2)]
    for one in more:  # the ones last that asked last: kept connections are bounded too
        one.request("POST", f"/{PATH}", asked())
        assert one.getresponse().read()
    wait_for_the_end(kept[0].sock)
    for one in (*kept, *more):
        one.close()


@pytest.mark.attack("webhook-filled-by-strangers")
def test_whoever_comes_in_numbers_drops_its_own(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server's first connection, which has not asked yet, is one of few of its address."""
    monkeypatch.setattr(bounds, "MOST_CONNECTIONS", 3)
    first = _plain(running)
    others = [
        socket.create_connection((LOCAL, running.port), source_address=("127.0.0.2", 0))
        for _each in range(9)
    ]
    for one in others[:-2]:
        wait_for_the_end(one)
    with running.context.wrap_socket(first, server_hostname=LOCAL) as channel:
        assert answered_by(channel) == b"HTTP/1.1 404"
    for one in others:
        one.close()


def test_nobody_is_dropped_who_waits_for_an_answer(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_CONNECTIONS", 1)
    running.templates.gate.clear()
    connection = running.connection()
    connection.request("POST", f"/{PATH}", asked())
    eventually(lambda: running.templates.waiting, 1)
    with contextlib.suppress(OSError), _plain(running) as other:
        wait_for_the_end(other)
    running.templates.gate.set()
    assert connection.getresponse().status == 200
    connection.close()


def _cut(running: Running) -> None:
    """Go away in the middle of a body."""
    channel = _secret(running)
    channel.sendall(f"POST /{PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{{".encode())
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    channel.close()


def _odd(running: Running) -> None:
    """Speak no HTTP."""
    with _secret(running) as channel:
        channel.sendall(b"\x00" * 99 + b"\r\n\r\n")
        channel.settimeout(LIMIT)
        while channel.recv(CHUNK):
            pass


def _gone(running: Running) -> None:
    """Go away while the answer is made."""
    running.templates.gate.clear()
    before = running.templates.ensured
    connection = running.connection()
    connection.request("POST", f"/{PATH}", asked())
    eventually(lambda: running.templates.waiting)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    running.templates.gate.set()
    eventually(lambda: running.templates.ensured > before)


@pytest.mark.attack("webhook-filled-by-strangers")
@pytest.mark.parametrize("end", [_cut, _odd, _gone])
def test_a_clients_end_is_no_news(
    running: Running,
    end: Callable[[Running], None],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _each in range(3):
        end(running)
    assert running.ask(asked())[0] == 200
    assert "Traceback" not in capfd.readouterr().err
    assert caplog.records == []
