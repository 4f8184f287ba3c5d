# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver in use is neither replaced nor removed: refused, waited for, or gone on with as the user says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine import gate
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.clock import Clock
from tests.fakes.packages.debian import VERSION, Debian, capability, converge, converged

LOADED = "/proc/driver/nvidia/version"
OLD = {"version": "535"}
TYPE = {"kernel_modules": "proprietary"}
GONE = {"state": "absent"}
CHANGES = [OLD, TYPE, GONE]


@pytest.fixture
def busy() -> Debian:
    """Return a node with the driver, where a process has a GPU open."""
    done = converged()
    done.files["/proc/99/comm"] = "python3\n"
    done.links["/proc/99/fd/3"] = "/dev/nvidia0"
    done.ran.clear()
    return done


def preview(node: Debian, **params: Any) -> Any:
    """Return the plan in check mode."""
    one = capability(node, check_mode=True, **params)
    return one.plan(one.observe())


def free(node: Debian) -> None:
    """End the process."""
    node.remove("/proc/99")


@pytest.mark.parametrize("wanted", CHANGES)
def test_driver_that_a_process_uses_is_not_touched(busy: Debian, wanted: dict[str, Any]) -> None:
    packages, files = busy.packages, dict(busy.files)
    for reload in ("never", "when_idle"):
        with pytest.raises(NodeError, match="in use, and the driver was not touched") as found:
            converge(busy, reload=reload, **wanted)
        assert found.value.details == {"blocked_by": ["process 99 (python3)"], "refused": True}
        assert "nvidia_driver_on_busy" in found.value.hint
        assert ("gpu.node.upgrade_driver" in found.value.hint) is (wanted is not GONE)
        assert (busy.packages, busy.files, busy.changes()) == (packages, files, [])


@pytest.mark.parametrize("wanted", CHANGES)
def test_check_mode_returns_the_plan_and_who_is_in_the_way(
    busy: Debian, wanted: dict[str, Any]
) -> None:
    one = capability(busy, check_mode=True, reload="when_idle", **wanted)
    state = one.observe()
    planned = one.plan(state)
    answer = one.result(state, planned)
    free(busy)
    assert planned.steps == preview(busy, reload="when_idle", **wanted).steps
    assert any("idle_gpu" in step.needs for step in planned.steps)
    assert planned.blocked_by == ("process 99 (python3)",)
    assert answer["refused"] is True
    assert any("would be refused" in text for text in planned.warnings)


def test_what_can_never_be_carried_out_is_no_matter_of_use(busy: Debian) -> None:
    for run in (preview, converge):
        with pytest.raises(NodeError) as found:
            run(busy, version="999")
        assert "refused" not in found.value.details


@pytest.mark.parametrize(
    "wanted",
    [
        {"hold": False},
        {"persistence": False},
        {"module_options": {"NVreg_EnableStreamMemOPs": "1"}},
        {"components": ["video"]},
        {"version": "550"},
    ],
)
def test_what_takes_nothing_goes_on(busy: Debian, wanted: dict[str, Any]) -> None:
    busy.offers |= {name: [VERSION] for name in ("libnvcuvid1", "libnvidia-encode1")}
    left = converge(busy, **wanted)
    assert left.steps == ()
    assert LOADED in busy.files


@pytest.mark.parametrize("nouveau", [True, False])
def test_first_installation_is_never_refused(nouveau: bool) -> None:
    node = Debian()
    node.files["/proc/99/comm"] = "Xorg\n"
    node.links["/proc/99/fd/3"] = "/dev/nvidia0"
    if nouveau:
        node.files["/sys/module/nouveau/refcnt"] = "1\n"
    converge(node)
    assert node.packages["nvidia-smi"][0] == VERSION


def test_nothing_is_enabled_before_a_change_that_would_be_refused(busy: Debian) -> None:
    """Sources are put right before the transaction that they are for."""
    sources = busy.files[OWN_SOURCES]
    busy.files[OWN_SOURCES] = sources.replace(" non-free-firmware", "")
    files = dict(busy.files)
    with pytest.raises(NodeError, match="was not touched"):
        converge(busy, **OLD)
    assert busy.files == files


@pytest.mark.parametrize("wanted", CHANGES)
def test_free_gpus_are_waited_for(
    busy: Debian, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(clock: Clock) -> None:
        if len(clock.slept) == 3:
            free(busy)

    clock = Clock(at=look)
    monkeypatch.setattr(gate, "time", clock)
    left = converge(busy, on_busy="wait", reload="when_idle", **wanted)
    assert (left.blocked_by, len(clock.slept)) == ((), 3)
    assert busy.packages.get("nvidia-open-kernel-dkms") != (VERSION, "hi ")


def test_wait_ends_at_its_timeout(busy: Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(gate, "time", clock)
    with pytest.raises(NodeError, match="after 30 s GPUs are in use") as found:
        converge(busy, on_busy="wait", wait_timeout=30, **OLD)
    assert found.value.details["blocked_by"] == ["process 99 (python3)"]
    assert 30 <= clock.now < 30 + 2 * gate.LOOK_SECONDS
    asked = [words for words in busy.ran if words[0] == "apt-cache"]
    assert len(asked) <= 3  # and not at each look
    assert busy.changes() == []


def test_check_mode_does_not_wait(busy: Debian) -> None:
    one = capability(busy, check_mode=True, on_busy="wait", **OLD)
    state = one.observe()
    planned = one.plan(state)
    assert one.result(state, planned)["refused"] is False
    assert planned.blocked_by == ("process 99 (python3)",)
    assert any("would wait" in text for text in planned.warnings)


def test_driver_is_replaced_in_use_only_where_that_is_said(busy: Debian) -> None:
    left = converge(busy, on_busy="proceed", reload="when_idle", **OLD)
    assert busy.packages["libcuda1"][0].startswith("535")
    assert not any(words[0] == "rmmod" for words in busy.ran)
    assert left.reboot_required
    assert left.blocked_by == ("process 99 (python3)",)
    assert any("on_busy is proceed" in text for text in left.warnings)


@pytest.mark.parametrize("on_busy", ["fail", "proceed"])
def test_who_is_in_the_way_of_a_boot_is_told(busy: Debian, on_busy: str) -> None:
    """The role asks before it reboots a node."""
    loaded = busy.files[LOADED]
    busy.files[LOADED] = loaded.replace(VERSION.partition("-")[0], "535.261.03")
    left = converge(busy, on_busy=on_busy)
    assert left.reboot_required
    assert left.blocked_by == ("process 99 (python3)",)


def test_pods_that_are_not_known_do_not_stop_who_proceeds(busy: Debian) -> None:
    busy.files["/var/lib/kubelet/pod-resources/kubelet.sock"] = ""
    busy.files["/var/lib/kubelet/dra_manager_state"] = "gpu.nvidia.com"
    with pytest.raises(NodeError, match="it is not known which pods"):
        converge(busy, **OLD)
    left = converge(busy, on_busy="proceed", **OLD)
    assert any("it is not known which pods" in text for text in left.warnings)


def test_processes_and_pods_are_named_together(busy: Debian) -> None:
    one = {"namespace": "ml", "pod": "idle", "container": "main", "resource": "nvidia.com/gpu"}
    one["device"] = "GPU-00000000-aaaa-bbbb-cccc-0123456789ab"
    busy.files["/var/lib/kubelet/pod-resources/kubelet.sock"] = ""
    busy.commands[PROGRAM, "pods"] = json.dumps({"version": 1, "allocations": [one]})
    with pytest.raises(NodeError) as found:
        converge(busy, **OLD)
    process, pod = found.value.details["blocked_by"]
    assert (process, pod[:11]) == ("process 99 (python3)", "pod ml/idle")
    ignoring = preview(busy, on_allocated="ignore", **OLD)
    assert ignoring.blocked_by == ("process 99 (python3)",)
