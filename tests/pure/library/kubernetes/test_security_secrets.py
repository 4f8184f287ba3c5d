# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in Secrets is in no result, difference or log of the module that keeps a cluster's objects."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.api import MISSING, ApiError
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.state import (
    hidden,
    is_same,
    values,
    wishes,
)
from ansible_collections.gpu.node.plugins.modules import cluster_objects

from tests.fakes.library.in_process import said_by

Json = dict[str, Any]
PLAIN, KEY = "hunter2-plain", "-----BEGIN PRIVATE KEY-----\nKEYDATA\n"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
PIN = "4711"  # too short to be sought in every text


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**more: Any) -> Json:
    meta = {"name": "db", "annotations": {APPLIED: json.dumps({"data": {"k": encoded(KEY)}})}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "data": {"tls.key": encoded(KEY)},
        "stringData": {"db": PLAIN, "pin": PIN},
        **more,
    }


GIVEN = [{"apiVersion": "v1", "kind": "List", "items": [secret()]}]
TOLD = (PLAIN, encoded(PLAIN), encoded(KEY), "KEYDATA", PIN)


class Server:
    """An API server on which nothing is yet, or an older Secret; it repeats what it was sent."""

    server = named = "https://api.example.com"
    warnings = ()
    live: Json | None = None
    refuses = False

    def __init__(self, *_named: str) -> None:
        self.applied = self.live

    def ask(self, doing: str, method: str, path: str, body: Any = None, **_how: Any) -> Json:
        if path == "/api/v1":
            return {"resources": [{"name": "secrets", "kind": "Secret", "namespaced": True}]}
        if method == "GET":
            if self.applied is None:
                raise ApiError(doing, "404 not found", MISSING)
            return self.applied
        if self.refuses:
            raise ApiError(doing, f"422 {body['stringData']['db']!r} is too weak", 422)
        if "dryRun" not in _how["query"]:
            self.applied = body
        return dict(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> type[Server]:
    """A server that a test sets."""
    mine = type("Server", (Server,), {})
    found = functools.partial(ClusterObjectsCapability, connect=mine)
    monkeypatch.setattr(cluster_objects, "ClusterObjectsCapability", found)
    return mine


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What comes to the syslog."""
    found: list[str] = []
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(
        basic.AnsibleModule, "_log_to_syslog", lambda _self, text: found.append(text)
    )
    return found


def run(folder: Path, **options: Any) -> str:
    """Run the module as Ansible does, which tells each one whether its task may be logged."""
    given = {"objects": GIVEN, "kubeconfig": "there", **options}
    return said_by(cluster_objects, given, folder, no_log=False, verbosity=3)


def assert_silent(*said: str) -> None:
    for one in TOLD:
        assert not any(one in text for text in said), one


@pytest.mark.attack("secrets-shown")
def test_no_result_difference_or_log_has_it(
    tmp_path: Path, server: type[Server], logged: list[str]
) -> None:
    server.live = secret(data={"tls.key": encoded("what was there before")})
    said = run(tmp_path)
    answer = json.loads(said)
    assert answer["changed"], said
    assert answer["objects"] == ["Secret db"]
    assert answer["diff"]["after"] == 'Secret db: "***"\n'
    (given,) = answer["invocation"]["module_args"]["objects"][0]["items"]
    assert given["stringData"] == {"db": "(hidden)", "pin": "(hidden)"}
    assert_silent(said, *logged)
    assert encoded("what was there before") not in said


@pytest.mark.attack("secrets-shown")
def test_no_error_has_it_whoever_repeats_it(
    tmp_path: Path, server: type[Server], logged: list[str]
) -> None:
    server.refuses = True
    said = run(tmp_path)
    assert "refuses Secret db" in json.loads(said)["msg"]
    assert_silent(said, *logged)


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "presnt"},
        {"unknown": 1},
        {"objects": [json.dumps(secret())[:-1]]},
        {"objects": json.dumps([secret()])[:-1]},
    ],
)
@pytest.mark.attack("secrets-shown")
def test_no_error_about_another_option_has_it(
    tmp_path: Path, server: type[Server], logged: list[str], wrong: Json
) -> None:
    said = run(tmp_path, **wrong)
    assert json.loads(said)["failed"]
    assert_silent(said, *logged)


@pytest.mark.parametrize("meta", [{}, {"annotations": {APPLIED: PLAIN}}, PLAIN])
def test_no_error_about_an_object_has_it(tmp_path: Path, server: type[Server], meta: Any) -> None:
    said = run(tmp_path, objects=[secret(metadata=meta)])
    assert "objects[0].metadata: " in json.loads(said)["msg"]
    assert_silent(said)


def test_what_is_hidden_is_compared_all_the_same() -> None:
    for more in ({"data": {"tls.key": encoded("x")}}, {"stringData": {"db": "x"}}):
        assert not is_same(secret(), secret(**more))
    assert is_same(secret(), secret())
    shown: Any = wishes(secret())
    assert shown["data"] == {"tls.key": "(hidden)"}
    assert shown["stringData"] == {"db": "(hidden)", "pin": "(hidden)"}
    assert shown["metadata"] == {"name": "db", "annotations": {APPLIED: "(hidden)"}}


def test_others_have_nothing_hidden() -> None:
    one = {"kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"annotations": {"c": "d"}}}
    assert hidden(one) == one
    assert values(one) == set()


def test_values_are_sought_plain_and_encoded_where_they_are_long_enough() -> None:
    found = {PLAIN, encoded(PLAIN), KEY, encoded(KEY), encoded(PIN)}
    assert values([secret()]) == found
    assert values({"kind": "SecretList", "items": [secret(kind="")]}) == found
    assert values(secret(data={"a": "no base64!"}, stringData={"b": ""})) == {"no base64!"}
    assert values(secret(data=PLAIN, stringData=None)) == set()
