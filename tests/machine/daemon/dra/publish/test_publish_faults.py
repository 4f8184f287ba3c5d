# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Slices are what they should be through all that can happen between a node and its API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import parse
from gpu_plugin.dra import publish
from gpu_plugin.dra.publish import GateOff, Publisher
from gpu_plugin.dra.slice_api import SliceApi
from gpu_plugin.model.inventory import GpuView, Kind, Problem
from gpu_plugin.slices import build
from gpu_plugin.slices.changes import changes

from tests.fakes.daemon.gpu_builders import inventory, view
from tests.fakes.kubernetes.standin_api import DROP, NODE, SLICES
from tests.fakes.kubernetes.standin_api import Api as Slices
from tests.support.waiting import LIMIT, eventually

ALL = parse("gpuNode: {allocation: dra}")
NAMES = [f"0{number}-gpu.node-{NODE}" for number in range(2)]
SICK = Problem(Kind.LOST, "gone")
Json = dict[str, Any]


def slices(*views: GpuView) -> tuple[Json, ...]:
    return build(inventory(*views), ALL, {}, {}, node=NODE)


ONE, TWO = slices(view(0)), slices(view(0), view(1))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Slices]:
    made = Slices(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def api(server: Slices) -> Iterator[SliceApi]:
    access = Access(str(server.kubeconfig), Rate(-1))
    yield SliceApi(access, NODE)
    access.close()


@pytest.fixture
def publisher(api: SliceApi) -> Iterator[Publisher]:
    made = Publisher(api, NODE, pause=0.05)
    made.start()
    yield made
    made.stop()


def good(server: Slices, specs: tuple[Json, ...] = ONE) -> bool:
    """Whether the server has what is wanted."""
    with server.news:
        found = list(server.slices.values())
    return bool(found) and changes(NODE, specs, found) == ()


def listed(server: Slices) -> int:
    """How often all slices were asked for."""
    return server.requests.count(("GET", SLICES))


def heard(server: Slices, publisher: Publisher) -> bool:
    """Whether the publisher's watch has told it of all that it wrote; told later it were news."""
    with server.news:
        versions = [int(one["metadata"]["resourceVersion"]) for one in server.slices.values()]
    return int(publisher._version or 0) >= max(versions)


def test_nothing_is_asked_while_nothing_changes(
    server: Slices, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "SETTLE", 0.0)
    publisher.want(ONE)
    eventually(lambda: server.counted("WATCH"))
    assert good(server)
    eventually(lambda: publisher.standing.problem == "")
    assert (publisher.standing.generation, publisher.standing.devices) == (1, 2)
    assert server.writes() == [("POST", "resourceslices")] * 2
    looks = listed(server)
    for number, specs in enumerate((slices(replace(view(0), problem=SICK)), ONE) * 3, 1):
        eventually(lambda: heard(server, publisher))
        for _each in range(3):
            publisher.want(specs)
        eventually(lambda specs=specs: good(server, specs))
        assert listed(server) == looks + number  # one for each that is another
    assert server.requests.count(("GET", "/version")) == 1


def test_a_restart_writes_nothing(server: Slices, api: SliceApi) -> None:
    for _process in range(3):
        publisher = Publisher(api, NODE)
        publisher.want(ONE)
        publisher.sync()
        publisher.stop()
    assert server.writes() == [("POST", "resourceslices")] * 2


def test_what_is_withdrawn_is_gone_when_that_is_said(server: Slices, publisher: Publisher) -> None:
    publisher.want(TWO)
    eventually(lambda: good(server, TWO))
    assert publisher.withdraw(LIMIT)
    assert server.slices == {}
    server.faults.extend([("GET", 503)] * 1000)
    publisher.want(ONE)
    eventually(lambda: publisher.standing.problem)
    assert not publisher.withdraw(0.1)


def test_no_slices_are_wanted_before_gpus_are_known(server: Slices, api: SliceApi) -> None:
    Publisher(api, NODE).sync()
    assert server.requests == []


def test_a_lost_api_server_is_found_again(server: Slices, publisher: Publisher) -> None:
    server.stop()
    publisher.want(ONE)
    eventually(lambda: "the Kubernetes API failed" in publisher.standing.problem)
    publisher.want(TWO)
    server.start()
    eventually(lambda: good(server, TWO))
    eventually(lambda: publisher.standing.problem == "")


@pytest.mark.parametrize("status", [DROP, 429, 500, 503])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_call_that_fails_is_made_again(
    server: Slices, publisher: Publisher, method: str, status: int
) -> None:
    publisher.want(ONE)
    eventually(lambda: good(server))
    for specs in (TWO, slices(replace(view(0), problem=SICK)), (), ONE):
        server.faults.clear()  # that call may not have been needed
        server.faults.extend([(method, status)] * 2)
        publisher.want(specs)
        eventually(lambda specs=specs: good(server, specs) or (not specs and not server.slices))


def test_access_that_expires_is_waited_for(server: Slices, publisher: Publisher) -> None:
    publisher.want(ONE)
    eventually(lambda: good(server))
    server.token = "another"
    publisher.want(TWO)
    eventually(lambda: "401" in publisher.standing.problem)
    server.write_kubeconfig(server.token)
    eventually(lambda: good(server, TWO))


def test_the_error_says_which_rights_are_missing(server: Slices, api: SliceApi) -> None:
    server.allows = lambda verb, _resource: verb != "create"
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    with pytest.raises(ApiError, match="list, watch, create, update and delete the ResourceSlices"):
        publisher.sync()


def test_what_was_wiped_or_changed_is_written_again(server: Slices, publisher: Publisher) -> None:
    publisher.want(ONE)
    eventually(lambda: server.counted("WATCH"))
    for _time in range(3):
        server.wipe()
        eventually(lambda: good(server))
    with server.news:
        meddled = server.slices[NAMES[1]]
        spec = {**meddled["spec"], "devices": meddled["spec"]["devices"][:1]}
        server.slices[NAMES[1]] = {**meddled, "spec": spec}
    eventually(lambda: good(server))
    assert server.slices[NAMES[1]]["spec"]["pool"]["generation"] == 1


@pytest.mark.parametrize("event", ["cut", "end", "expire"])
def test_a_watch_that_ends_misses_nothing(server: Slices, publisher: Publisher, event: str) -> None:
    publisher.want(ONE)
    eventually(lambda: server.counted("WATCH"))
    getattr(server, event)()
    server.wipe()
    eventually(lambda: good(server))
    watches = server.counted("WATCH")
    getattr(server, event)()
    eventually(lambda: server.counted("WATCH") > watches)


def test_who_ends_watches_at_once_is_asked_less_and_less_often(
    server: Slices, publisher: Publisher
) -> None:
    publisher.want(ONE)
    eventually(lambda: server.counted("WATCH"))
    eventually(lambda: heard(server, publisher))
    for ended in range(3):
        eventually(lambda ended=ended: server.counted("WATCH") > ended)
        eventually(lambda ended=ended: publisher._backoffs[1].failures == ended)
        server.end()
    eventually(lambda: publisher._backoffs[1].failures, 3)


def test_another_writer_at_the_same_time_is_met_with_a_new_look(
    server: Slices, api: SliceApi
) -> None:
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    publisher.sync()
    look, looks = api.all, []

    def slow() -> tuple[list[Json], str]:
        found = look()
        looks.append(found)
        if len(looks) == 1:  # somebody writes after we looked
            server.slices[NAMES[1]] = server.slices[NAMES[1]]
        return found

    api.all = slow  # type: ignore[method-assign]
    publisher.want(slices(replace(view(0), problem=SICK)))
    publisher.sync()
    assert len(looks) == 2
    assert good(server, slices(replace(view(0), problem=SICK)))


def test_slices_of_somebody_else_are_left_and_ours_under_other_names_go(
    server: Slices, publisher: Publisher
) -> None:
    foreign = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": {"name": NODE}}
    pool = {"name": "old", "generation": 7, "resourceSliceCount": 1}
    old = {**ONE[1], "pool": pool}
    for name, spec in (("foreign", foreign), ("old", old)):
        meta = {"name": name, "uid": name, "resourceVersion": "1"}
        server.slices[name] = {"metadata": meta, "spec": spec}
    publisher.want(ONE)
    eventually(lambda: set(server.slices) == {"foreign", *NAMES})
    assert {server.slices[name]["spec"]["pool"]["generation"] for name in NAMES} == {1}
    eventually(lambda: publisher.standing.generation, 1)


def test_slices_of_an_earlier_release_stay_while_those_of_this_one_are_refused(
    server: Slices, api: SliceApi
) -> None:
    """As by the policy of that release, which knows another pool."""
    publisher = Publisher(api, NODE)
    publisher.want(build(inventory(view(0)), ALL, {}, {}, node=NODE, pool=NODE))
    publisher.sync()
    before = dict(server.slices)
    server.faults.append(("POST", 403))
    publisher.want(ONE)
    with pytest.raises(ApiError, match="403"):
        publisher.sync()
    assert server.slices == before
    publisher.sync()
    assert good(server)


def test_a_name_that_is_taken_is_told(server: Slices, api: SliceApi) -> None:
    foreign = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": {"name": NODE}}
    server.slices[NAMES[0]] = {"metadata": {"name": NAMES[0], "uid": "1"}, "spec": foreign}
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    with pytest.raises(ApiError, match=f"creating ResourceSlice {NAMES[0]}.*already exists"):
        publisher.sync()


@pytest.mark.parametrize(
    ("field", "gate"),
    [
        ("sharedCounters", "DRAPartitionableDevices"),
        ("consumesCounters", "DRAPartitionableDevices"),
        ("allowMultipleAllocations", "DRAConsumableCapacity"),
    ],
)
def test_without_its_feature_gate_nothing_stays_published(
    server: Slices, api: SliceApi, field: str, gate: str
) -> None:
    server.drops = (field,)
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    with pytest.raises(GateOff, match=f"the feature gate {gate}"):
        publisher.sync()
    assert server.slices == {}
    assert server.writes() == []  # not for a moment either


def test_what_was_published_goes_with_its_feature_gate(server: Slices, api: SliceApi) -> None:
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    publisher.sync()
    server.drops = ("consumesCounters",)
    publisher.want(tuple(slices(*(view(index) for index in range(40)))))
    with pytest.raises(GateOff, match="DRAPartitionableDevices"):
        publisher.sync()
    assert server.slices == {}
    assert server.writes()[2:] == [("DELETE", one) for one in NAMES]


def test_taints_that_the_server_drops_are_written_once(server: Slices, api: SliceApi) -> None:
    server.drops = ("taints",)
    publisher = Publisher(api, NODE)
    publisher.want(slices(replace(view(0), problem=SICK)))
    for _each in range(3):
        publisher.sync()
    assert server.writes() == [("POST", "resourceslices")] * 2
    publisher.want(ONE)
    publisher.sync()
    publisher.sync()
    assert good(server)
    assert server.writes()[2:] == [("PUT", NAMES[1])]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("v1.36.1", "Kubernetes 1.36.1, with which kube-scheduler forgets the counters of shares"),
        ("v1.36.3-eks-1", ""),
        ("dev", ""),
    ],
)
def test_a_kubernetes_that_gives_a_card_away_twice_is_told_beside_what_is_published(
    server: Slices, api: SliceApi, said: str, problem: str
) -> None:
    server.version = said
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    publisher.sync()
    assert good(server)
    assert publisher.standing.devices == 2
    assert publisher.standing.problem.startswith(
        f"the API server is of {problem}" if problem else ""
    )
    assert bool(publisher.standing.problem) == bool(problem)
    server.version = "v1.36.3"
    publisher.sync()
    assert publisher.standing.problem == ""


def test_the_version_is_asked_for_anew_by_who_was_broken_off(
    server: Slices, publisher: Publisher
) -> None:
    publisher.want(ONE)
    eventually(lambda: server.counted("WATCH"))
    eventually(lambda: publisher.standing.problem == "")
    server.version = "v1.36.1"
    server.cut()  # as by the end of a server that is replaced
    eventually(lambda: "1.36.1" in publisher.standing.problem)


def test_a_server_that_keeps_its_version_to_itself_is_no_problem(
    server: Slices, api: SliceApi
) -> None:
    def fail(_method: str, path: str) -> None:
        if path == "/version":
            server.faults.append(("GET", 403))

    server.before = fail
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    publisher.sync()
    assert publisher.standing.problem == ""
    assert ("GET", "/version") in server.requests
    assert not server.faults


def test_a_cluster_without_dra_is_told_so(server: Slices, api: SliceApi) -> None:
    server.faults.append(("GET", 404))
    publisher = Publisher(api, NODE)
    publisher.want(ONE)
    with pytest.raises(
        ApiError, match=r"does not serve resource.k8s.io/v1.*use Kubernetes 1\.36\.3"
    ):
        publisher.sync()
