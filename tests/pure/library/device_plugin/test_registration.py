# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is said where no kubelet has registered the GPUs, and where that is an error."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin import registration
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import plan
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import PluginState

from tests.fakes.library.agent_nodes import (
    FRESH,
    PREFIX,
    RUNNING,
    STATUS,
    WANTED,
    actions,
    changed,
    seen,
)

LATE = {**STATUS, "resources": {"nvidia.com/gpu": {"registered": False}}}
REQUIRED = dataclasses.replace(WANTED, require_kubelet=True)


def alone(**more: Any) -> Any:
    return seen(kubelet=False, status={**LATE, **more})


def test_a_node_without_a_kubelet_is_told_of() -> None:
    (told,) = plan(alone(), WANTED, PREFIX).warnings
    assert told == (
        "no kubelet has registered the GPUs yet (no kubelet listens at /var/lib/kubelet/device-plugins/kubelet.sock);"
        " this is fine before the node joins: the device plugin registers them as soon as a kubelet listens there."
        " Set gpu_nodes_require_kubelet to true where it must have been by now"
    )
    assert plan(alone(), WANTED, PREFIX).steps == ()


@pytest.mark.parametrize(
    "found",
    [
        RUNNING,
        seen(kubelet=False),  # registered, and the kubelet is away at the moment
        seen(kubelet=False, status={**STATUS, "resources": {}}),  # nothing to register
        seen(kubelet=False, status={}),
    ],
)
def test_what_is_registered_needs_no_word(found: Any) -> None:
    assert plan(found, WANTED, PREFIX).warnings == ()
    assert registration.missing(found.serving.status, listens=found.serving.kubelet) == ""


def test_before_the_end_nothing_is_told() -> None:
    """What is yet to start may register all of it."""
    stopped = changed(alone(), files={})
    assert plan(stopped, WANTED, PREFIX).steps
    assert plan(stopped, WANTED, PREFIX).warnings == ()


def test_a_kubelet_that_is_required_is_waited_for() -> None:
    found = plan(alone(), REQUIRED, PREFIX)
    assert actions(found) == ["registration"]
    assert found.steps[-1].summary == "wait until a kubelet has registered the GPUs"
    assert found.warnings == ()
    assert plan(RUNNING, REQUIRED, PREFIX).steps == ()


def test_it_is_waited_for_at_the_end_of_a_first_run() -> None:
    fresh = seen(files={}, status={}, kubelet=False)
    assert actions(plan(fresh, REQUIRED, PREFIX))[-1] == "registration"
    assert "registration" not in actions(plan(fresh, WANTED, PREFIX))


@pytest.mark.parametrize(
    ("status", "listens", "cause"),
    [
        (LATE, False, "no kubelet listens at /var/lib/kubelet/device-plugins/kubelet.sock"),
        (LATE, True, "it listens, and has not taken nvidia.com/gpu yet"),
        ({**LATE, "registration_problem": "it refuses"}, True, "it refuses"),
        ({**LATE, "registration_problem": "of an earlier one"}, False, "no kubelet listens"),
    ],
)
def test_the_cause_is_named(status: dict[str, Any], listens: bool, cause: str) -> None:
    assert cause in registration.missing(status, listens=listens)


def test_the_error_says_what_to_do() -> None:
    error = registration.failure("no kubelet listens at X", 60)
    assert str(error) == (
        "after 60 s no kubelet has registered the GPUs, and gpu_nodes_require_kubelet is set: no kubelet listens at X."
        " Next step: start the kubelet (see 'systemctl status kubelet' and gpu-device-plugin.service), or set"
        " gpu_nodes_require_kubelet to false where the node joins its cluster later"
    )


# --- beside a pod of the DaemonSet ---

POD = "the pod gpu-plugin-x7k2p"


@pytest.mark.parametrize("node", [FRESH, RUNNING])
def test_the_service_is_not_started_beside_a_pod(node: PluginState) -> None:
    with pytest.raises(NodeError) as caught:
        plan(changed(node, pod=POD), WANTED, PREFIX)
    said = str(caught.value)
    assert f"another device plugin serves the GPUs of this node: {POD}" in said
    assert "keep the DaemonSet's pods off this node" in said
    assert "gpu_nodes_components" in said


@pytest.mark.parametrize("state", ["installed", "stopped", "absent"])
def test_what_starts_nothing_may_be_done_beside_a_pod(state: str) -> None:
    plan(seen(pod=POD), dataclasses.replace(WANTED, state=state), PREFIX)
