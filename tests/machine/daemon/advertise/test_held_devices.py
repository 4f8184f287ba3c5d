# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What pods hold while the way that devices are advertised changes, from the kubelet's side and the user's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

SHARED = "nvidia.com/gpu.shared"
BY_FOUR = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
RENAMED = BY_FOUR.replace("resources", "renameByDefault: true, resources")
NAMED = "resources: {gpus: [{pattern: '*', name: h100}]}"
H100 = "nvidia.com/h100"


def held(node: Node) -> dict[str, str]:
    """Why devices wait for pods, by UUID, as the daemon tells it once the kubelet was asked."""
    asks = {"asks", ""}
    found = eventually(
        lambda: {one["reason"] for one in node.status()["devices"]} - asks and node.status()
    )
    return {
        uuid: why
        for resource in found["resources"].values()
        for uuid, why in resource["problems"].items()
    }


@pytest.mark.parametrize(
    ("before", "had", "after", "has", "shares"),
    [
        ("", GPU, BY_FOUR, GPU, 4),
        (BY_FOUR, GPU, "", GPU, 1),
        (BY_FOUR, GPU, RENAMED, SHARED, 4),
        ("", GPU, NAMED, H100, 1),
    ],
)
def test_a_gpu_that_an_idle_pod_holds_is_given_to_nobody_until_it_ends(
    make_node: MakeNode, before: str, had: str, after: str, has: str, shares: int
) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon(before)
    eventually(lambda: node.resources().get(had, 0) >= 2)
    (device,) = node.admit("trainer", **{had.partition("/")[2]: 1})["devices"][had]
    node.config.write_text(after)
    node.wait(has, shares)
    uuid, (free,) = device.partition("::")[0], set(node.uuids()) - {device.partition("::")[0]}
    healthy = {name for name, one in node.health(has).items() if one == "Healthy"}
    assert {name.partition("::")[0] for name in healthy} == {free}
    (why,) = held(node).values()
    assert why == (
        "it waits for who holds it in another form: pod default/trainer (container main) "
        f"with {had} {uuid}"
    )
    node.ask("release", pod="trainer")
    node.wait(has, 2 * shares)


@pytest.mark.long
def test_a_whole_gpu_in_mig_mode_and_its_devices_wait_for_each_other(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "3g.40gb", "3g.40gb")
    mig = "nvidia.com/mig-3g.40gb"
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    node.wait(mig, 2)
    node.admit("part", **{"mig-3g.40gb": 1})
    node.config.write_text("flags: {migStrategy: none}")
    eventually(lambda: "pod default/part" in "".join(held(node).values()))
    node.wait(GPU, 0)
    node.ask("release", pod="part")
    node.wait(GPU, 1)
    node.admit("whole", gpu=1)
    node.config.write_text("flags: {migStrategy: mixed}")
    eventually(lambda: list(held(node).values()) and "default/whole" in str(held(node)))
    node.wait(mig, 0)
    node.ask("release", pod="whole")
    node.wait(mig, 2)


def test_a_daemon_that_starts_with_another_configuration_knows_who_holds_what(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    state = node.folder / "state"
    flags = ("--state-directory", str(state))
    uuids = node.serve(2, "", *flags)
    node.admit("trainer", gpu=1)
    node.kill()
    node.start_daemon(BY_FOUR, *flags)
    node.wait(GPU, 4)
    assert len(held(node)) == 1
    assert (state / "forms.json").stat().st_mode & 0o777 == 0o600
    kept: dict[str, Any] = json.loads((state / "forms.json").read_text())["forms"]
    assert sorted(form[2] for form in kept.values()) == ["timeSlicing", "whole"]
    assert sorted(kept) == sorted(uuids)


def test_a_kubelet_that_does_not_tell_keeps_devices_as_they_were(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    assert node.kubelet is not None
    node.pods.unlink()
    node.pods.touch()
    node.config.write_text(BY_FOUR)
    problems = eventually(lambda: len(node.problems(GPU)) == 2 and node.problems(GPU))
    assert set(problems.values()) == {
        "it waits for the kubelet's answer whether a pod holds it in another form"
    }
    why = eventually(lambda: node.status()["chores"]["pods"])
    assert "does not report which pods" in why
    node.config.write_text("")
    node.wait(GPU, 2)


def test_the_status_names_holders_by_the_gpu_whatever_its_form(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    (device,) = node.admit("trainer", gpu=1)["devices"][GPU]
    node.config.write_text(BY_FOUR)
    node.wait(GPU, 4)
    held(node)
    words = ("--status-file", node.status_file, "--pod-resources", node.pods)
    (row,) = (
        line for line in node.cli("status", *words).stdout.splitlines() if f" {device} " in line
    )
    assert row.split()[-2:] == ["default/trainer", "(main)"]
    assert "Unhealthy: it waits for who holds it" in row


@pytest.mark.long
def test_a_configuration_is_checked_with_the_pods_that_it_would_wait_for(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    state = node.folder / "state"
    node.serve(2, "", "--state-directory", str(state))
    (device,) = node.admit("trainer", gpu=1)["devices"][GPU]
    other = node.folder / "other.yaml"
    other.write_text(BY_FOUR)
    words = ("check-config", "--node", "--pod-resources", node.pods, "--state-directory", state)
    waits, valid = node.cli(*words, other).stdout.splitlines()
    assert waits.startswith(f"waits: {device}: it waits for who holds it in another form: pod")
    assert valid == f"{other}: valid"
    assert node.cli(*words, node.config).stdout == f"{node.config}: valid\n"
    node.pods.unlink()
    node.pods.touch()
    silent = node.cli(*words, other)
    assert silent.returncode == 0
    assert "which pods would be waited for is not known" in silent.stderr
