# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The end of the display: a table of the nodes, what failed, what was counted."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from tests.fakes.plays.plays import Play

LONG = "a-gpu-node-whose-name-is-as-long-as-names-are-in-some-clouds-{}.rack-7.example.com"
FAR = {"ansible_connection": "ssh", "ansible_host": "192.0.2.1", "ansible_ssh_extra_args": ""}
FAR |= {"ansible_ssh_common_args": "-o ConnectTimeout=1 -o BatchMode=yes", "ansible_port": "9"}
DRIVER = {"installed_version": "550.163.01", "loaded_version": "535.261.03"}
DRIVER |= {"reboot_required": True, "reboot_reasons": ["the old module is loaded"]}
GPUS = [{"mig_enabled": bool(one % 4), "instances": [{}] * (one % 4)} for one in range(8)]
MIG = ("6", "of", "8", "partitioned")
RESOURCES = {
    "nvidia.com/gpu": {"devices": 2, "registered": True},
    "nvidia.com/mig-1g.5gb": {"devices": 12, "registered": True},
}
CHECKS = {"checks": [{"name": str(one), "holds": True} for one in range(10)], "failed_checks": []}


FAILS = {"name": "Break", "speaks": {"fail": "no\nroom"}}
LOCAL = ("partitioned", "broken", "spoilt", "cordoned", "alone", "bare", "counted")
COUNTED = [
    {"block": [FAILS], "rescue": [{"name": "Mend", "speaks": {}}]},
    {**FAILS, "ignore_errors": True},
    {"name": "Not", "speaks": {}, "when": False},
    {"name": "Each", "speaks": {}, "loop": [1, 2, 3], "when": "item != 2"},
    {"name": "Quiet", "ansible.builtin.set_fact": {"x": 1}},
]


def answers(play: Play, module: str, **answer: Any) -> dict[str, Any]:
    """Return a task whose module answers as the one of the collection with this name does."""
    shutil.copy(play.folder / "library/speaks.py", play.folder / f"library/{module}.py")
    return {"name": f"Run {module}", module: {"answer": answer}}


def of(hosts: str, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a play."""
    return {"name": hosts, "hosts": hosts, "gather_facts": False, "tasks": list(tasks), **more}


@pytest.fixture(scope="module")
def shown(shared_play: Play) -> str:
    """Return what is shown of nodes to each of which something else happens."""
    plays = [
        of(
            "partitioned:broken",
            answers(shared_play, "nvidia_driver", **{**DRIVER, "changed": True}),
        ),
        of("partitioned", answers(shared_play, "mig", gpus=GPUS, reboot_required=False)),
        of("broken", {"name": "Warn", "speaks": {"warn": ["one", "two"]}}),
        of("spoilt", answers(shared_play, "validate", **CHECKS)),
        of("cordoned", answers(shared_play, "drain", cordoned=True)),
        of("bare", {"name": "Look", "gpu.node.gpu_info": {}}),
        of("counted", *COUNTED),
        of("away", {"name": "Ask in vain", "speaks": {}}, ignore_unreachable=True),
        of("far:broken:spoilt:cordoned:alone", FAILS),
    ]
    hosts = {**{one: {} for one in LOCAL}, "away": FAR, "far": FAR}
    return shared_play.run(plays, hosts=hosts)


@pytest.fixture(scope="module")
def table(shown: str) -> dict[str, list[str]]:
    """Return the rows of the table by their nodes."""
    return {name: rest for name, *rest in map(str.split, filter(str.strip, end(shown)))}


def end(text: str) -> list[str]:
    """Return the lines of the end: those after the last line of a task."""
    lines = text.splitlines()
    return lines[max(n for n, line in enumerate(lines) if line.startswith("  node")) :]


def test_the_table_has_what_the_modules_have_said(shown: str, table: dict[str, list[str]]) -> None:
    assert table["node"] == ["driver", "MIG", "reboot", "warnings", "result"]
    driver = ["535.261.03", "(550.163.01", "installed)"]
    assert table["partitioned"] == [*driver, *MIG, "pending", "0", "changed"]
    assert table["broken"] == [*driver, "pending", "2", "failed"]
    lines = end(shown)
    first = lines.index("  ! 4 nodes: Break")
    below = ["      broken, spoilt, cordoned, alone", "      no", "      room"]
    assert lines[first + 1 : first + 4] == below


@pytest.mark.long
def test_a_validated_node_says_with_v_what_it_offers(play: Play) -> None:
    plays = [
        of("valid", answers(play, "device_plugin", resources=RESOURCES)),
        of("valid", answers(play, "validate", **CHECKS)),
        of("told", answers(play, "validate", **CHECKS, summary="ready, 4 GPUs")),
    ]
    shown = play.run(plays, "-v", hosts=("valid", "told"))
    assert "  valid: ready, 10 checks hold, 2 GPU + 12 MIG devices advertised\n" in shown
    assert "  told: ready, 4 GPUs\n" in shown
    assert "ready, " not in play.run(plays, hosts=("valid", "told"))


def test_a_node_is_not_ready_after_a_failure(shown: str) -> None:
    assert "spoilt: ready" not in shown


def test_a_node_that_stays_cordoned_is_called_so(table: dict[str, list[str]]) -> None:
    assert table["cordoned"][-2:] == ["failed,", "cordoned"]
    assert table["alone"][-1] == "failed"


def test_a_node_without_a_gpu_by_the_genuine_module(table: dict[str, list[str]]) -> None:
    assert table["bare"] == ["no", "GPU", "0", "skipped"]


def test_a_host_that_was_never_reached_has_nothing_done(shown: str) -> None:
    assert re.search(r"^  ! .{7}  far  +Break: unreachable$", shown, re.MULTILINE)
    assert "  far: changed=0 ok=0 failed=0 unreachable=1 module calls=0\n" in shown
    again = end(shown).index("  ! far: Break")
    assert "192.0.2.1" in end(shown)[again + 1]


def test_an_ignored_unreachable_host_is_no_failure(shown: str) -> None:
    assert "Ask in vain: unreachable, ignored" in shown
    assert "  ! away" not in shown
    assert re.search(r"^  away: .*ignored=1$", shown, re.MULTILINE)


def test_everything_is_counted(shown: str, table: dict[str, list[str]]) -> None:
    words = "changed=0 ok=4 failed=0 unreachable=0 module calls=5 skipped=1 rescued=1 ignored=1"
    assert f"  counted: {words}\n" in shown
    assert table["counted"][-1] == "rescued"


def test_long_names_are_aligned_told_apart_and_once_in_full(play: Play) -> None:
    names = [LONG.format(one) for one in ("0001", "0002", "0011")]
    hosts = (*names, "short", "n9", "n10", "a")
    text = play.run([{"name": "Do it", "speaks": {}}], hosts=hosts)
    shown = [line.split()[3] for line in text.splitlines() if line.endswith("  Do it")]
    assert len(set(shown)) == len(hosts)
    assert all(len(one) <= 32 for one in shown)
    assert {one[-4:] for one in shown} == {"0001", "0002", "0011", "hort", "n9", "n10", "a"}
    assert len({line.index("Do it") for line in text.splitlines() if line.endswith("  Do it")}) == 1
    assert all(text.count(name) == 1 for name in names)
    order = [line.split()[0] for line in end(text)[1 : len(hosts) + 1]]
    assert order[3:] == ["short", "n9", "n10", "a"]  # that of the inventory


def test_everything_fits_into_60_columns(play: Play) -> None:
    names = [LONG.format(one) for one in ("0001", "0002")]
    packages = ", ".join(f"nvidia-package-{one} (550.163.01-2)" for one in range(5))
    tasks = [
        answers(play, "nvidia_driver", **DRIVER, steps=[{"summary": f"install {packages}"}]),
        answers(play, "mig", gpus=GPUS, steps=[{"summary": "GPU 6: create 1g at 4:4"}] * 2),
        {"name": "Warn", "speaks": {"warn": ["the kernel has no modules of the driver " * 4]}},
        {"name": "Break", "speaks": {"fail": "there is no room for this " * 5}},
    ]
    text = play.run(tasks, hosts=names, COLUMNS="60")
    lines = [line for line in text.splitlines() if not any(name in line for name in names)]
    assert max(map(len, lines)) <= 60
    assert (
        sum("MIG 6 of 8 partitioned" in line for line in " ".join(text.split()).split(" s in all"))
        == 1
    )
    assert " ".join(packages.split()) in " ".join(text.split())


def test_a_play_that_has_chosen_no_host_is_no_group_of_another_name(play: Play) -> None:
    text = play.run([of("{{ [] }}")], hosts=("n1",))
    assert text.splitlines()[2] == "  no host has to be changed"


def test_batches_are_named_and_what_was_not_run_is_told(play: Play) -> None:
    tasks = [{"name": "Break", "speaks": {"fail": "no"}}, {"name": "More", "speaks": {}}]
    plays = [of("nobody"), of("all", *tasks, serial=2)]
    text = play.run(plays, hosts=("n1", "n2", "n3"))
    assert text.splitlines()[1:3] == ["nobody", "  no host matches"]
    assert "\nall: 2 of 3 nodes, n1, n2\n" in text
    assert "n3  Break" not in text
    assert "  nothing was run on n3\n" in text
    assert text.splitlines()[-1].endswith(" s in all")


def test_nodes_that_others_failures_have_stopped_are_not_done(play: Play) -> None:
    fails = {"fail": "{{ 'no' if inventory_hostname == 'n1' else omit }}"}
    tasks = [{"name": "Break", "speaks": fails}, {"name": "More", "speaks": {}}]
    text = play.run([of("all", *tasks, max_fail_percentage=20)], hosts=("n1", "n2"))
    assert text.count("  the play ends here, as nodes have failed\n") == 1
    assert [line.split() for line in end(text)[1:3]] == [
        ["n1", "0", "failed"],
        ["n2", "0", "stopped"],
    ]
