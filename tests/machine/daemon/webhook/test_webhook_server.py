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
from gpu_plugin.webhook import limits as bounds
from gpu_plugin.webhook import review
from gpu_plugin.webhook.admission import Admission
from gpu_plugin.webhook.certificates import issue
from gpu_plugin.webhook.certificates.serving import Serving
from gpu_plugin.webhook.limits import LONGEST, Lane
from gpu_plugin.webhook.server import Server
from gpu_plugin.webhook.service import Options, Service, Sources

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, limits, pod
from tests.fakes.daemon import scraping
from tests.fakes.kubernetes import reviews
from tests.support.waiting import LIMIT, eventually

LOCAL = scraping.HOST
SHARE = pod(limits(gpu=1, gpumem=3000))
PATH, CHUNK = "unguessable", 4096


NOW = 1_800_000_000.0
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which ssl has no name


class Templates:
    """Takes for each template until the gate is open. ``waiting`` are those that wait for it."""

    def __init__(self) -> None:
        self.gate, self.ensured, self.waiting = threading.Event(), 0, 0
        self.gate.set()

    def ensure(self, _space: str, _template: Any, _now: float, look: Callable[[], None]) -> bool:
        self.waiting += 1
        self.gate.wait(LIMIT)
        self.waiting -= 1
        look()
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
        self.paths: tuple[str, ...] = (PATH,)
        self._server = Server(admission, serving.context, lambda: self.problem, lambda: self.paths)
        self._loop = asyncio.new_event_loop()
        self.port = scraping.free_address()[1]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._server.start((LOCAL, self.port)))

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def stop(self) -> None:
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(LOCAL, self.port, timeout=LIMIT, context=self.context)

    def ask(self, body: bytes, method: str = "POST", path: str = f"/{PATH}") -> tuple[int, bytes]:
        connection = self.connection()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found


def asked(one: Json | None = None, **more: Any) -> bytes:
    """Return a review as an API server sends it."""
    return reviews.asked(SHARE if one is None else one, **{"object": one or SHARE, **more})


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    for deadline in ("FIRST", "DEADLINE"):
        monkeypatch.setattr(bounds, deadline, LIMIT)
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
        assert running.ask(b" " * (LONGEST + 1))[0] == 200
    assert running.ask(asked())[0] == 200


@pytest.mark.attack("webhook-templates-for-anybody")
def test_other_paths_and_methods_are_refused(running: Running) -> None:
    for path in ("/other", "/", "/mutate", f"/{PATH}/", f"//{PATH}", f"/{PATH[:-1]}"):
        assert running.ask(asked(), path=path)[0] == 404
    assert running.ask(asked(), method="PUT")[0] == 405
    assert running.templates.ensured == 0


@pytest.mark.attack("webhook-templates-for-anybody")
def test_without_a_path_nothing_is_answered(running: Running) -> None:
    """As before the API servers have been told of one."""
    running.paths = ()
    for path in ("/", f"/{PATH}"):
        assert running.ask(asked(), path=path)[0] == 404
    assert running.templates.ensured == 0


@pytest.mark.attack("webhook-filled-by-strangers")
@pytest.mark.parametrize(("path", "status"), [("other", 404), (PATH, 413)])
def test_a_body_that_nobody_wants_is_not_waited_for(
    running: Running, path: str, status: int
) -> None:
    connection = running.connection()
    connection.putrequest("POST", f"/{path}")
    connection.putheader("Content-Length", str(LONGEST + 1))
    connection.endheaders(b"{")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (status, "close")
    connection.close()


def test_a_body_without_a_length_is_refused(running: Running) -> None:
    connection = running.connection()
    connection.request("POST", f"/{PATH}", iter([asked()]), encode_chunked=True)
    assert connection.getresponse().status == 411
    connection.close()


@pytest.mark.attack("webhook-kept-busy")
def test_a_small_review_waits_for_no_large_one(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many large ones as there are come, and none of them ends: small ones are answered."""
    large = pod(limits(gpu=1, gpumem=3000), annotations={"a": "x" * bounds.LANES[0].longest})
    running.templates.gate.clear()
    connections = [running.connection() for _each in range(3 * bounds.LANES[-1].at_once)]
    for one in connections:
        one.request("POST", f"/{PATH}", asked(large))
    eventually(lambda: running.templates.waiting, bounds.LANES[-1].threads)
    assert running.ask(asked(pod(limits())))[0] == 200
    running.templates.gate.set()
    assert [one.getresponse().status for one in connections] == [200] * len(connections)
    for one in connections:
        one.close()


@pytest.mark.attack("webhook-kept-busy")
def test_who_works_for_nobody_ends(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A review that is late frees its thread between two templates."""
    monkeypatch.setattr(bounds, "LANES", (Lane(LONGEST, 4, 1),))
    one = Running()
    try:
        monkeypatch.setattr(bounds, "DEADLINE", 0.3)
        one.templates.gate.clear()
        assert one.ask(asked(pod(*(limits(gpu=1, gpumem=n) for n in range(1, 9)))))[0] == 503
        monkeypatch.setattr(bounds, "DEADLINE", LIMIT)
        one.templates.gate.set()
        assert one.ask(asked())[0] == 200
        assert one.templates.ensured == 1
    finally:
        one.stop()


def test_a_review_that_takes_too_long_is_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DEADLINE", 0.3)
    running.templates.gate.clear()
    assert running.ask(asked())[0] == 503
    running.templates.gate.set()
    monkeypatch.setattr(bounds, "DEADLINE", LIMIT)
    assert running.ask(asked())[0] == 200


@pytest.mark.attack("review-that-never-ends")
def test_a_body_that_does_not_come_is_waited_for_until_the_deadline(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DEADLINE", 0.3)
    connection = running.connection()
    connection.putrequest("POST", f"/{PATH}")
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


class Served(Service):
    """Pages without an API server. ``problem`` and ``alive`` are what they are told."""

    def __init__(self) -> None:
        options = Options(("", 0), None, 600.0, SETTINGS, "gpu-node")
        super().__init__(options, None, lambda _access: Sources(None, lambda _now: (PATH,)))  # type: ignore[arg-type]
        self.said, self.alive = "", True

    def problem(self) -> str:
        return self.said

    def _alive(self) -> bool:
        return self.alive


def test_pages_tell_health_readiness_and_metrics() -> None:
    served = Served()
    address = scraping.free_address()
    pages = served._told(address)

    def page(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*address, timeout=LIMIT)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    assert page("/healthz") == (200, "ok\n")
    assert page("/readyz") == (200, "ok\n")
    served.said, served.alive = "there is no certificate", False
    assert page("/readyz") == (503, "there is no certificate\n")
    assert page("/healthz") == (503, "no review is taken any more\n")
    assert 'gpu_webhook_reviews_total{result="mutated"}' in page("/metrics")[1]
    assert page(f"/{PATH}")[0] == 404
    pages.end()


def test_warnings_are_short_and_plain() -> None:
    answer = review.allowed("u", [], ["a\x1b[31m" + "b" * 999] * 99)
    warnings = answer["response"]["warnings"]
    assert len(warnings) == 16
    assert all(len(one) == 256 and one.isprintable() for one in warnings)
