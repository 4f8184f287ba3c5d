# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The server with clients that are not API servers."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_plugin.webhook import review, server
from gpu_plugin.webhook.admission import Admission
from gpu_plugin.webhook.certificates import issue
from gpu_plugin.webhook.certificates.serving import Serving
from gpu_plugin.webhook.server import Server

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, limits, pod
from tests.fakes.daemon import scraping
from tests.support.waiting import LIMIT, eventually

LOCAL = scraping.HOST
SHARE = pod(limits(gpu=1, gpumem=3000))


NOW = 1_800_000_000.0
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which ssl has no name


class Templates:
    """Takes for each template until the gate is open."""

    def __init__(self) -> None:
        self.gate, self.ensured = threading.Event(), 0
        self.gate.set()

    def ensure(self, *_words: Any) -> bool:
        self.gate.wait(LIMIT)
        self.ensured += 1
        return True


class Running:
    """A server in a thread of its own."""

    def __init__(self) -> None:
        self.templates, self.problem = Templates(), ""
        made = issue.authority("ca", NOW)
        serving = Serving()
        serving.load(issue.serving(made, (LOCAL,), NOW))
        self.context = ssl.create_default_context(cadata=made.certificate)
        self.context.verify_flags |= NO_CHECK_TIME
        admission = Admission(SETTINGS, self.templates, lambda: MPS_NODES)  # type: ignore[arg-type]
        self._server = Server(admission, serving.context, lambda: self.problem)
        self._loop = asyncio.new_event_loop()
        self.port, self.pages = (scraping.free_address()[1] for _each in range(2))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._server.start((LOCAL, self.port), (LOCAL, self.pages)))

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def stop(self) -> None:
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(LOCAL, self.port, timeout=LIMIT, context=self.context)

    def ask(self, body: bytes, method: str = "POST", path: str = "/mutate") -> tuple[int, bytes]:
        connection = self.connection()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found


def asked(one: Json | None = None, **more: Any) -> bytes:
    """Return a review as an API server sends it."""
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": one or SHARE,
        **more,
    }
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**kind, "request": request}).encode()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    for deadline in ("FIRST", "DEADLINE"):
        monkeypatch.setattr(server, deadline, LIMIT)
    made = Running()
    yield made
    made.stop()


def test_a_review_is_answered(running: Running) -> None:
    status, body = running.ask(asked())
    response = json.loads(body)["response"]
    assert (status, response["uid"], response["allowed"]) == (200, "u", True)
    assert response["patchType"] == "JSONPatch"
    assert running.templates.ensured == 1
    running.ask(asked(dryRun=True))
    assert running.templates.ensured == 1


@pytest.mark.attack("review-that-never-ends")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100000,
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        asked().replace(b"io/v1", b"io/v1beta1"),
        asked(namespace="../default"),
        asked(namespace=None),
        asked(operation="UPDATE"),
        asked(kind={"group": "apps", "kind": "Deployment"}),
        asked(uid=3),
        asked(object=[]),
    ],
)
def test_what_is_no_review_is_refused(running: Running, body: bytes) -> None:
    assert running.ask(body)[0] == 400
    assert running.templates.ensured == 0


@pytest.mark.attack("review-that-never-ends")
def test_bodies_are_bounded(running: Running) -> None:
    with pytest.raises((OSError, http.client.HTTPException, AssertionError)):
        assert running.ask(b" " * (review.LONGEST + 1))[0] == 200
    assert running.ask(asked())[0] == 200


def test_other_paths_and_methods_are_refused(running: Running) -> None:
    assert running.ask(asked(), path="/other")[0] == 404
    assert running.ask(asked(), method="PUT")[0] == 405


def test_a_review_that_takes_too_long_is_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DEADLINE", 0.3)
    running.templates.gate.clear()
    assert running.ask(asked())[0] == 503
    running.templates.gate.set()
    monkeypatch.setattr(server, "DEADLINE", LIMIT)
    assert running.ask(asked())[0] == 200


@pytest.mark.attack("review-that-never-ends")
def test_a_body_that_does_not_come_is_waited_for_until_the_deadline(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DEADLINE", 0.3)
    connection = running.connection()
    connection.putrequest("POST", "/mutate")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"{")
    assert connection.getresponse().status == 503
    connection.close()


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
    channel.sendall(b"POST /mutate HTTP/1.1\r\nX: ")
    return channel


@pytest.mark.attack("review-that-never-ends")
@pytest.mark.parametrize("connect", [_plain, _secret, _headers])
def test_who_asks_nothing_is_dropped(
    connect: Callable[[Running], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST", 0.2)
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


def test_the_oldest_of_too_many_is_dropped(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_SILENT", 2)
    channels = [_secret(running) for _each in range(3)]
    wait_for_the_end(channels[0])
    for one in channels[1:]:
        one.settimeout(LIMIT)
        one.sendall(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(12) == b"HTTP/1.1 404"
    for one in channels:
        one.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_is_spoken_from_1_2_on(running: Running, version: ssl.TLSVersion) -> None:
    running.context.minimum_version = running.context.maximum_version = version
    assert running.ask(asked())[0] == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_before_1_2_is_refused(running: Running) -> None:
    running.context.minimum_version = ssl.TLSVersion.TLSv1_1
    running.context.maximum_version = ssl.TLSVersion.TLSv1_1
    running.context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        running.ask(asked())


def test_pages_tell_health_readiness_and_metrics(running: Running) -> None:
    def page(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOCAL, running.pages, timeout=LIMIT)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    assert page("/healthz") == (200, "ok\n")
    assert page("/readyz") == (200, "ok\n")
    running.problem = "there is no certificate"
    assert page("/readyz") == (503, "there is no certificate\n")
    running.ask(asked())
    assert 'gpu_webhook_reviews_total{result="mutated"}' in page("/metrics")[1]
    assert page("/mutate")[0] == 404


def test_warnings_are_short_and_plain() -> None:
    answer = review.allowed("u", [], ["a\x1b[31m" + "b" * 999] * 99)
    warnings = answer["response"]["warnings"]
    assert len(warnings) == 16
    assert all(len(one) == 256 and one.isprintable() for one in warnings)
