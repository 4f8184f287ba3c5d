# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device checkpoint of a genuine kubelet is removed under pods: nothing they have is given or taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.forgotten import forgetful
from tests.cluster.forgotten.forgetful import DEVICES, PROGRAM, UNKNOWN
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster


def layout(**devices: int) -> dict[str, object]:
    """Return four whole GPUs, and four with such MIG devices."""
    partitioned = {name.replace("_", "."): count for name, count in devices.items()}
    parts = [
        {"devices": [0, 1, 2, 3], "mig-enabled": False, "mig-devices": {}},
        {"devices": [4, 5, 6, 7], "mig-enabled": True, "mig-devices": partitioned},
    ]
    return {"version": "v1", "mig-configs": {"mixed": parts}}


MIG = layout(**{"1g_10gb": 2, "2g_20gb": 1, "3g_40gb": 1})
OTHER = layout(**{"1g_10gb": 7})
SMALL, MEDIUM, LARGE = "mig-1g.10gb", "mig-2g.20gb", "mig-3g.40gb"
ALL = {"gpu": 4, SMALL: 8, MEDIUM: 4, LARGE: 4}
FREE = {"gpu": 1, SMALL: 1, MEDIUM: 1, LARGE: 1}
# 16 devices: 3 GPUs and 13 MIG devices; the pair has one in each of two containers.
HOLDERS: dict[str, list[dict[str, int]]] = {
    "single": [{"gpu": 1}],
    "double": [{"gpu": 2}],
    "pair": [{SMALL: 1}, {SMALL: 1}],
    **{f"small-{number}": [{SMALL: 1}] for number in range(5)},
    **{f"medium-{number}": [{MEDIUM: 1}] for number in range(3)},
    **{f"large-{number}": [{LARGE: 1}] for number in range(3)},
}
Devices = dict[str, list[list[str]]]  # by pod, of each of its containers
LAST_LOOK = 600  # seconds: holders are looked for once a minute


@pytest.fixture(scope="module")
def brought_up(make_cluster: MakeCluster) -> Cluster:
    """A node of four whole GPUs and four with MIG devices."""
    cluster = make_cluster("forgotten", "h100-80", 8, mig_config=MIG)
    cluster.bring_up()
    return cluster


@pytest.fixture
def cluster(brought_up: Cluster) -> Iterator[Cluster]:
    """The same node for each test, with all that it has and no pods."""
    brought_up.end()
    eventually(brought_up.allocatable, ALL, limit=LAST_LOOK)
    yield brought_up
    brought_up.end()


def hold(cluster: Cluster, **fields: object) -> Devices:
    """Start the pods that hold 16 devices, and return what each of their containers sees."""
    for name, containers in HOLDERS.items():
        forgetful.begin(cluster, name, *containers, **fields)
    eventually(cluster.phases, dict.fromkeys(HOLDERS, "Running"))
    found = forgetful.running(cluster)
    assert forgetful.shared(forgetful.nodes(cluster)) == []
    assert sum(map(len, found.values())) == len(HOLDERS) + 1
    return found


def clear(cluster: Cluster) -> None:
    """Remove all pods, and wait until the node has all devices again."""
    cluster.end()
    eventually(cluster.allocatable, ALL, limit=LAST_LOOK)


def forgotten(
    cluster: Cluster, prepare: Callable[[], object] = lambda: None, **fields: object
) -> Devices:
    """Start the pods that hold devices, and have the kubelet forget them; again where it ends them itself.

    ``prepare`` is called while it is stopped.
    """
    for _attempt in range(5):
        before = hold(cluster, **fields)
        cluster.node.run("systemctl", "stop", "kubelet")
        prepare()
        forgetful.forget(cluster, DEVICES)
        settle(cluster)
        if not forgetful.denied(cluster, *HOLDERS):
            assert held(cluster, before) == before
            return before
        clear(cluster)
    pytest.fail("the kubelet ended the pods at each of its starts")


def settle(cluster: Cluster, *, remembers: bool = False) -> None:
    """Wait until a kubelet that has started has decided about its pods, and the device plugin about its devices."""
    eventually(lambda: forgetful.has_pods(cluster))
    eventually(lambda: (UNKNOWN in status(cluster)) is not remembers)
    eventually(cluster.allocatable, ALL if remembers else FREE)
    assert forgetful.shared(forgetful.nodes(cluster)) == []


def held(cluster: Cluster, devices: Devices) -> Devices:
    """Return what the containers of some pods see now, once no device is seen by two containers."""
    assert forgetful.shared(forgetful.nodes(cluster)) == []
    seen = forgetful.running(cluster)
    return {name: seen.get(name, []) for name in devices}


def status(cluster: Cluster) -> str:
    """Return what the device plugin says of each device."""
    return cluster.node.run(PROGRAM, "status")


def ask(cluster: Cluster, **fields: object) -> set[str]:
    """Make two pods for each resource, and return their names."""
    names = {
        f"{resource.replace('.', '-')}-new-{count}": resource
        for resource in ALL
        for count in (0, 1)
    }
    for name, resource in names.items():
        forgetful.begin(cluster, name, {resource: 1}, **fields)
    return set(names)


def phases(cluster: Cluster, names: Iterable[str]) -> dict[str, str]:
    """Return the phases of some pods."""
    found = cluster.phases()
    return {name: found[name] for name in names}


def test_devices_of_running_pods_are_given_to_nobody_after_the_kubelet_forgot(
    cluster: Cluster,
) -> None:
    before = forgotten(cluster)

    # Nobody is given what a pod has: the scheduler counts what they asked for, and finds no place.
    newcomers = ask(cluster)
    eventually(lambda: newcomers <= cluster.waiting())
    assert held(cluster, before) == before
    shown = status(cluster)
    for name in HOLDERS:
        assert f"default/{name} " in shown, shown

    # No MIG device is taken, and no check says that one could be.
    instances = cluster.node.run("nvidia-smi", "-L")
    for cmdline in ("--check", ""):
        change = cluster.node.play("gpu.node.mig", cmdline=cmdline, mig_config=OTHER)
        assert not change.ok
        assert UNKNOWN in change.message()
        assert "default/" in change.message()
        assert cluster.node.run("nvidia-smi", "-L") == instances
    look = cluster.node.play("gpu.node.validate")
    assert UNKNOWN in look.message()
    assert held(cluster, before) == before
    assert phases(cluster, HOLDERS) == dict.fromkeys(HOLDERS, "Running")

    # Once they have ended, others get what they had, and nobody has to do anything for it.
    cluster.end(*HOLDERS)
    eventually(cluster.phases, dict.fromkeys(newcomers, "Running"), limit=LAST_LOOK)
    assert forgetful.shared(forgetful.nodes(cluster)) == []
    eventually(cluster.allocatable, ALL, limit=LAST_LOOK)
    assert UNKNOWN not in status(cluster)


def test_pods_bound_while_the_kubelet_forgets_get_no_device_of_another(cluster: Cluster) -> None:
    """No scheduler counts for them: the kubelet alone decides, at the moment at which it knows least."""
    before = forgotten(cluster, lambda: ask(cluster, nodeName=cluster.node.name))
    newcomers = set(cluster.phases()) - set(HOLDERS)
    eventually(lambda: "Pending" not in phases(cluster, newcomers).values())
    assert held(cluster, before) == before
    given = {name for name, phase in phases(cluster, newcomers).items() if phase == "Running"}
    assert given <= set(forgetful.running(cluster))  # none runs without a device
    refused = phases(cluster, newcomers - given).values()
    assert {phase.partition(" ")[0] for phase in refused} == {"Failed"}


def test_a_container_that_is_restarted_after_the_kubelet_forgot_gets_no_device_of_another(
    cluster: Cluster,
) -> None:
    """The kubelet gives it a device anew. It names its pod then, and knows no other container of it."""
    before = forgotten(cluster, restartPolicy="Always")
    restarted = {"single": "c0", "pair": "c0", "medium-0": "c0", "large-0": "c0"}
    for pod, name in restarted.items():  # one by one: two at a time make a kubelet of 1.36 panic
        forgetful.kill(cluster, pod, name)
        eventually(lambda pod=pod: (cluster.restarts()[pod], cluster.phase(pod)), (1, "Running"))
        eventually(lambda: len(forgetful.nodes(cluster)), len(HOLDERS) + 1)
    others = {pod: devices for pod, devices in before.items() if pod not in restarted}
    assert held(cluster, others) == others
    assert [one for one in before["pair"] if one in forgetful.running(cluster)["pair"]]

    # Each has what was free, and what it had is free by now; the other container of its pod keeps its device.
    eventually(cluster.allocatable, dict.fromkeys(ALL, 2), limit=LAST_LOOK)
    smalls = [name for name in HOLDERS if name.startswith("small-")]
    cluster.end(*smalls)
    eventually(lambda: cluster.allocatable()[SMALL], ALL[SMALL] - 1, limit=LAST_LOOK)
    newcomers = [f"newcomer-{number}" for number in range(6)]
    for name in newcomers:
        forgetful.begin(cluster, name, {SMALL: 1})
    eventually(lambda: sorted(phases(cluster, newcomers).values()), ["Pending", *["Running"] * 5])
    others = {pod: devices for pod, devices in others.items() if pod not in smalls}
    assert held(cluster, others) == others


def stands(cluster: Cluster, before: Devices) -> bool:
    """Return whether each of the pods has what it had, or has been ended by the kubelet."""
    found = forgetful.nodes(cluster)
    assert forgetful.shared(found) == []
    seen = forgetful.running(cluster)
    return all(
        seen.get(name) == before[name] if phase == "Running" else name not in seen
        for name, phase in phases(cluster, before).items()
    )


@pytest.mark.long
def test_a_kubelet_that_forgets_again_and_again_gives_nothing_twice(cluster: Cluster) -> None:
    """Whatever it forgets or restarts, and though it may panic: it ends a pod, or leaves it what it has."""
    before = hold(cluster)
    for number in range(6):
        cluster.node.run("systemctl", "stop", "kubelet")
        newcomers = ask(cluster, **({"nodeName": cluster.node.name} if number % 2 else {}))
        if number % 4 == 1:
            cluster.node.run("systemctl", "restart", "gpu-device-plugin")
        if number % 4 == 3:  # what it has written down since it forgot
            cluster.node.run("systemctl", "start", "kubelet")
        else:
            forgetful.forget(cluster, DEVICES)
        eventually(lambda: forgetful.has_pods(cluster) and cluster.allocatable())
        eventually(partial(stands, cluster, before))
        cluster.end(*newcomers)
        eventually(partial(stands, cluster, before))
        ended = set(phases(cluster, HOLDERS).values()) != {"Running"}
        print("round", number, "the kubelet ended pods itself" if ended else "all pods run on")
        if ended:
            clear(cluster)
            before = hold(cluster)
