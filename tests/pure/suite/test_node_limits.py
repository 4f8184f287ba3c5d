# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is said before simulated nodes start where the machine has too little for them, and which runs are over."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gpunode_tool.limits import NODE, Room, lacking
from gpunode_tool.paths import run_of_this_process, was_killed

PLENTY = Room(
    instances=NODE.instances * 4,
    files=NODE.files * 4,
    descriptors=NODE.descriptors,
    memory=NODE.memory * 4,
    disk=NODE.disk * 4,
)


def test_nothing_is_lacking_where_there_is_room_for_each_node() -> None:
    assert lacking(PLENTY, 4) == []


def test_one_node_more_lacks_all_but_what_each_process_has_for_itself() -> None:
    assert len(lacking(PLENTY, 5)) == 4
    assert lacking(dataclasses.replace(PLENTY, descriptors=1024), 4) == [
        f"a process may open 1024 files and {NODE.descriptors} are needed: ulimit -Hn {NODE.descriptors}"
    ]


def test_too_few_inotify_instances_name_the_sysctl_with_a_value_that_is_enough() -> None:
    few = dataclasses.replace(PLENTY, instances=NODE.instances - 1)
    (said,) = lacking(few, 1, used=600)
    assert said.startswith(
        f"{NODE.instances - 1} inotify instances are free and {NODE.instances} are needed"
    )
    assert said.endswith(f"sysctl --write fs.inotify.max_user_instances={600 + NODE.instances}")
    (said,) = lacking(few, 1, used=100)
    assert said.endswith("=512")


def test_a_run_was_killed_once_the_process_is_gone_that_named_it() -> None:
    gone = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    runs = [run_of_this_process(), f"p{gone}", "hand", "p"]
    assert [one for one in runs if was_killed(one)] == [f"p{gone}"]
