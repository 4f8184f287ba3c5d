# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is said where systemd does not bring a unit up: the unit's own last words, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._machine import units
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.machine import boot

from tests.fakes.library.fakes import FakeHost

UNIT = "gpu-cdi.path"
JOB = f'Job for {UNIT} failed.\nSee "systemctl status {UNIT}" and "journalctl -xeu {UNIT}" for details.'
FULL = f"{UNIT}: Failed to enter waiting state: Too many open files"
CAUSES = ("old words", FULL, f"{UNIT}: Failed with result 'resources'.")


def host(*logged: str) -> FakeHost:
    """A node on which no unit comes up."""
    answers: dict[tuple[str, ...], Completed | str] = {
        ("systemctl",): Completed(1, "", JOB),
        ("journalctl", "--unit", UNIT): "\n".join(logged),
        ("systemctl", "daemon-reload"): "",
    }
    return FakeHost({"/proc/sys/fs/inotify/max_user_instances": "128\n"}, answers)  # type: ignore[arg-type]


STARTS: dict[str, Callable[[FakeHost], object]] = {
    "by a step": lambda node: boot.apply(
        node,  # type: ignore[arg-type]
        Step("boot", "", {"systemctl": [["daemon-reload"], ["restart", UNIT]]}),
    ),
    "by hand": lambda node: units.systemctl(node, "enable", "--now", UNIT),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("way", STARTS)
def test_the_units_own_words_are_quoted(way: str) -> None:
    with pytest.raises(NodeError) as caught:
        STARTS[way](host(*CAUSES))
    assert FULL in caught.value.cause
    assert "systemctl" in caught.value.message
    assert JOB not in str(caught.value)


def test_where_inotify_is_used_up_the_setting_is_named_with_a_larger_value() -> None:
    with pytest.raises(NodeError) as caught:
        units.systemctl(host(*CAUSES), "restart", UNIT)  # type: ignore[arg-type]
    assert caught.value.hint == (
        "see whether the node's inotify instances are used up, of which a user may have 128: sysctl --write"
        " fs.inotify.max_user_instances=1024, keep that in a file of /etc/sysctl.d, and run again"
    )


def test_other_words_name_the_journal() -> None:
    with pytest.raises(NodeError) as caught:
        units.systemctl(host("it is broken"), "restart", UNIT)  # type: ignore[arg-type]
    assert caught.value.cause == "it is broken"
    assert caught.value.hint == f"see 'journalctl -u {UNIT}' on the node, then run again"


def test_a_unit_that_has_logged_nothing_leaves_the_words_of_systemctl() -> None:
    for words in (("restart", UNIT), ("enable", UNIT)):
        with pytest.raises(NodeError) as caught:
            units.systemctl(host(), *words)  # type: ignore[arg-type]
        assert caught.value.cause == JOB


def test_what_starts_no_unit_asks_no_journal() -> None:
    node = host(*CAUSES)
    with pytest.raises(NodeError) as caught:
        units.systemctl(node, "enable", UNIT)  # type: ignore[arg-type]
    assert caught.value.cause == JOB
    assert node.ran == [("systemctl", "enable", UNIT)]
