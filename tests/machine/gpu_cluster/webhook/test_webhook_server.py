# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The server with clients that are not API servers."""

from __future__ import annotations

import http.client
import json
import ssl
import threading

import pytest
from gpu_cluster.webhook import limits as bounds
from gpu_cluster.webhook import review
from gpu_cluster.webhook.limits import LONGEST, Lane
from gpu_cluster.webhook.service import Options, Service, Sources

from tests.fakes.cluster.hami_pods import SETTINGS, limits, pod
from tests.fakes.daemon import scraping
from tests.fakes.kubernetes.webhook_serving import PATH, Running, asked
from tests.support.waiting import LIMIT, eventually

LARGE = pod(limits(gpu=1, gpumem=3000), annotations={"a": "x" * bounds.LANES[0].longest})


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
        asked({"spec": {"affinity": json.loads("[" * 100 + "]" * 100)}}),
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


@pytest.mark.attack("review-that-never-ends")
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
    running.templates.gate.clear()
    connections = [running.connection() for _each in range(3 * bounds.LANES[-1].at_once)]
    for number, one in enumerate(connections):
        one.request("POST", f"/{PATH}", asked(LARGE, namespace=f"team-{number}"))
    eventually(lambda: running.templates.waiting, bounds.LANES[-1].threads)
    assert running.ask(asked(pod(limits())))[0] == 200
    running.templates.gate.set()
    assert [one.getresponse().status for one in connections] == [200] * len(connections)
    for one in connections:
        one.close()


@pytest.mark.attack("webhook-kept-busy")
def test_a_large_pod_is_answered_while_large_ones_of_another_namespace_are_reviewed(
    running: Running,
) -> None:
    running.templates.gates["crowd"] = threading.Event()
    first = running.connection()
    first.request("POST", f"/{PATH}", asked(LARGE, namespace="crowd"))
    eventually(lambda: running.templates.waiting, 1)
    for _each in range(3 * bounds.LANES[-1].at_once):
        status, body = running.ask(asked(LARGE, namespace="crowd", uid="again"))
        response = json.loads(body)["response"]
        assert (status, response["uid"], response["allowed"]) == (200, "again", False)
        assert response["status"]["code"] == 429
        assert response["status"]["details"] == {"retryAfterSeconds": bounds.COME_AGAIN}
        assert "another large pod of namespace crowd" in response["status"]["message"]
        assert "tries again" in response["status"]["message"]
    assert json.loads(running.ask(asked(LARGE, namespace="team"))[1])["response"]["allowed"]
    running.templates.gates["crowd"].set()
    assert json.loads(first.getresponse().read())["response"]["allowed"]
    assert json.loads(running.ask(asked(LARGE, namespace="crowd"))[1])["response"]["allowed"]
    first.close()


@pytest.mark.attack("webhook-kept-busy")
@pytest.mark.usefixtures("running")  # its deadlines
def test_a_client_that_sends_slowly_sees_that_it_shall_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "LINGER", 0.0)  # nothing is read after an answer
    server = Running()
    server.templates.gates["crowd"] = threading.Event()
    first, second = server.connection(), server.connection()
    body = asked(LARGE, namespace="crowd")
    first.request("POST", f"/{PATH}", body)
    eventually(lambda: server.templates.waiting, 1)
    second.putrequest("POST", f"/{PATH}")
    second.putheader("Content-Length", str(len(body)))
    second.endheaders(body[: bounds.LONGEST_HEAD])
    server.ask(asked())  # which is answered after the second one's first bytes were looked at
    for start in range(bounds.LONGEST_HEAD, len(body), 4096):
        second.send(body[start : start + 4096])
        server.ask(b"{")
    answer = second.getresponse()
    assert json.loads(answer.read())["response"]["status"]["code"] == 429
    server.templates.gates["crowd"].set()
    for connection in (first, second):
        connection.close()
    server.stop()


@pytest.mark.attack("webhook-kept-busy")
def test_a_namespace_has_its_turn_again_after_a_review_that_failed(running: Running) -> None:
    broken = asked(LARGE, operation="UPDATE")
    assert [running.ask(broken)[0] for _each in range(3)] == [400, 400, 400]
    assert json.loads(running.ask(asked(LARGE))[1])["response"]["allowed"]


@pytest.mark.attack("webhook-kept-busy")
def test_a_pod_cannot_name_another_namespace_for_itself() -> None:
    name = '"namespace":"other"'
    body = asked(pod({"name": "a"}), name=name, namespace="own")
    ahead = body.replace(b'"kind":"Pod"}', b'"kind":"Pod"},"name":' + json.dumps(name).encode(), 1)
    assert review.read_head(ahead) == ("u", "own")
    assert review.read_head(b"{") == ("", "")


@pytest.mark.attack("webhook-kept-busy")
def test_who_works_for_nobody_ends(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A review that is late frees its thread between two templates."""
    monkeypatch.setattr(bounds, "LANES", (Lane(LONGEST, 4, 1, 4),))
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
    pages = served._serve_pages(address)

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
