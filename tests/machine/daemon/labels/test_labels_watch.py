# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The watch of the node, through all that can happen to a connection."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi, NodeWatch
from gpu_plugin.labels.owned import NodeState

from tests.fakes.kubernetes.standin_api import DROP, NODE, Api
from tests.support.waiting import LIMIT, eventually


@pytest.fixture
def told(api: Api) -> Iterator[queue.SimpleQueue[NodeState | ApiError]]:
    """What a watch of the node tells."""
    found: queue.SimpleQueue[NodeState | ApiError] = queue.SimpleQueue()
    watch = NodeWatch(NodeApi(Access(str(api.kubeconfig)), NODE), found.put, pause=0.05)
    watch.start()
    yield found
    watch.stop()
    eventually(lambda: (api.cut(), watch.join(0.1), not watch.is_alive())[-1])


Told = queue.SimpleQueue[NodeState | ApiError]


def state(told: Told) -> NodeState:
    """The next state that is told; failures in between are left out."""
    while True:
        found = told.get(timeout=LIMIT)
        if isinstance(found, NodeState):
            return found


def test_a_watch_tells_changes_of_labels_and_no_others(api: Api, told: Told) -> None:
    assert "a" not in state(told).labels
    eventually(lambda: api.counted("WATCH"))
    api.set(a="1")
    assert state(told).labels["a"] == "1"
    api.merge({"status": {"phase": "busy"}})
    api.set("annotations", note="x")
    assert state(told).annotations == {"note": "x"}
    assert told.empty()


def test_a_watch_of_a_past_that_is_forgotten_begins_anew(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    api.expire()
    eventually(lambda: api.counted("WATCH") > 1)
    api.set(a="1")
    while "a" not in state(told).labels:
        pass
    assert told.empty()  # 410 is nothing that anybody has to hear of
    api.faults.append(("WATCH", 410))
    eventually(lambda: (api.cut(), not api.faults)[-1])
    api.set(b="2")
    while "b" not in state(told).labels:
        pass


def test_a_watch_survives_what_can_happen(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    faults = [("GET", 500), ("GET", DROP), ("WATCH", 403), ("WATCH", 503), ("WATCH", DROP)]
    for number, fault in enumerate(faults):
        api.faults.append(fault)
        again = api.expire if fault[0] == "GET" else api.cut
        eventually(lambda again=again: (again(), not api.faults)[-1])
        api.set(a=str(number))
        while state(told).labels.get("a") != str(number):
            pass
    assert not api.faults
    api.stop()
    api.set(a="later")
    api.start()
    while state(told).labels.get("a") != "later":
        pass


def test_at_rest_there_is_no_list_and_no_new_connection(api: Api, told: Told) -> None:
    state(told)
    for number in range(1, 6):
        eventually(lambda number=number: api.counted("WATCH") == number)
        api.merge({"status": {"phase": f"{number}"}})  # the kubelet's, such as its heartbeat
        api.end()
    api.set(a="1")
    assert state(told).labels["a"] == "1"
    assert (api.counted("GET"), api.connections) == (1, 1)


def test_a_cut_connection_goes_on_where_it_was(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    for number in range(3):
        api.cut()
        assert isinstance(told.get(timeout=LIMIT), ApiError)
        assert state(told)  # it can be followed again, though nothing has changed
        eventually(lambda number=number: api.counted("WATCH") > number + 1)
    api.stop()
    while not isinstance(told.get(timeout=LIMIT), ApiError):
        pass
    api.start()
    assert state(told)
    assert api.counted("GET") == 1


def test_a_node_that_is_deleted_and_registers_again(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    with api.news:
        before, api.node = api.node, None
    while "node was deleted" not in str(told.get(timeout=LIMIT)):
        pass
    while "no such node" not in str(told.get(timeout=LIMIT)):
        pass
    with api.news:
        api.node = before
    assert state(told)


def test_access_that_is_renewed_is_taken(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    api.token = "new"
    api.end()
    while getattr(told.get(timeout=LIMIT), "status", 0) != 401:
        pass
    api.write_kubeconfig("new")
    assert state(told)


MALFORMED = {
    "empty": "",
    "cut off": '{"clusters": [{"name": "he',
    "text": "hello",
    "a list": "[]",
    "a mapping": "{}",
    "no context": '{"current-context": "here"}',
    "no lists": '{"current-context": "a", "contexts": 3, "clusters": {}, "users": "x"}',
    "no names": '{"current-context": "a", "contexts": [{}], "clusters": [{}], "users": [{}]}',
    "null parts": "current-context: a\ncontexts: [{name: a, context: null}]\nclusters: [{name: c}]",
    "list parts": "current-context: a\ncontexts: [{name: a, context: [x]}]\nclusters: []",
    "number parts": "current-context: [a]\ncontexts: [{name: [a], context: 3}]\nclusters: []",
    "odd cluster": "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n"
    "clusters: [{name: c, cluster: {server: [3]}}]",
    "odd user": "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: [x]}]",
    "odd exec": "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: '*'}}]\n"
    "users: [{name: u, user: {exec: {command: 3, apiVersion: {}, args: 7, env: 9}}}]",
    "tab": "clusters:\n\t- name: x",
    "date": "current-context: 2001-01-01\ncontexts: [{name: 2001-01-01}]",
    "bytes": "\x00\x01",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_kubeconfig_does_not_end_the_watch(api: Api, text: str) -> None:
    good = api.kubeconfig.read_text()
    api.kubeconfig.write_text(text)
    found: Told = queue.SimpleQueue()
    watch = NodeWatch(NodeApi(Access(str(api.kubeconfig)), NODE), found.put, pause=0.05)
    watch.start()
    first = found.get(timeout=LIMIT)
    assert isinstance(first, ApiError)
    api.kubeconfig.write_text(good)
    assert state(found)
    watch.stop()
    eventually(lambda: (api.end(), watch.join(0.1), not watch.is_alive())[-1])


def test_a_kubeconfig_that_is_being_written_changes_nothing(api: Api, node: NodeApi) -> None:
    node.read()
    for text in MALFORMED.values():
        if "127.0.0.1" in text:
            continue  # that is another server, and nothing is wrong with it
        api.kubeconfig.write_text(text)
        assert node.read().node.labels
    api.kubeconfig.unlink()
    assert node.read().node.labels
    api.token = "new"
    with pytest.raises(ApiError, match="401"):
        node.read()
    with pytest.raises(ApiError, match=r"looking for a kubeconfig.*is not there"):
        node.read()
    api.write_kubeconfig("new")
    assert node.read().node.labels


def test_who_ends_watches_at_once_is_asked_less_and_less_often(api: Api) -> None:
    watch = NodeWatch(NodeApi(Access(str(api.kubeconfig)), NODE), lambda _told: None, pause=0.05)
    watch.start()
    for ended in range(3):
        eventually(lambda ended=ended: api.counted("WATCH") > ended)
        assert watch._backoff.failures == ended
        api.end()
    eventually(lambda: watch._backoff.failures, 3)
    watch.stop()
    eventually(lambda: (api.end(), watch.join(0.1), not watch.is_alive())[-1])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_library_that_asks_for_the_end_does_not_end_the_watch(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Told = queue.SimpleQueue()
    watch = NodeWatch(NodeApi(Access(str(api.kubeconfig)), NODE), found.put, pause=0.05)
    with monkeypatch.context() as broken:
        broken.setattr(NodeApi, "read", lambda _self: sys.exit(1))
        watch.start()
        assert "SystemExit" in str(found.get(timeout=LIMIT))
    assert state(found)
    watch.stop()
    eventually(lambda: (api.end(), watch.join(0.1), not watch.is_alive())[-1])
