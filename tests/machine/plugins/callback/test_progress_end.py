# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The end of the display: a table of the nodes, what failed, what was counted."""

from __future__ import annotations

import re
import shutil
from typing import Any

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


def answers(play: Play, module: str, when: str = "true", **answer: Any) -> dict[str, Any]:
    """Return a task whose module answers as the one of the collection with this name does."""
    shutil.copy(play.folder / "library/speaks.py", play.folder / f"library/{module}.py")
    return {"name": f"Run {module}", module: {"answer": answer}, "when": when}


def end(text: str) -> list[str]:
    """Return the lines of the end: those after the last line of a task."""
    lines = text.splitlines()
    return lines[max(n for n, line in enumerate(lines) if line.startswith("  node")) :]


def test_the_table_has_what_the_modules_have_said(play: Play) -> None:
    tasks = [
        answers(play, "nvidia_driver", **{**DRIVER, "changed": True}),
        answers(play, "mig", "inventory_hostname == 'n1'", gpus=GPUS, reboot_required=False),
        {"name": "Warn", "speaks": {"warn": ["one", "two"]}, "when": "inventory_hostname == 'n2'"},
        {"name": "Break", "speaks": {"fail": "no\nroom"}, "when": "inventory_hostname == 'n2'"},
    ]
    table = end(play.run(tasks, hosts=("n1", "n2")))
    assert [line.split() for line in table[:3]] == [
        ["node", "driver", "MIG", "reboot", "warnings", "result"],
        ["n1", "535.261.03", "(550.163.01", "installed)", *MIG, "pending", "0", "changed"],
        ["n2", "535.261.03", "(550.163.01", "installed)", "pending", "2", "failed"],
    ]
    assert table[4:7] == ["  ! n2: Break", "      no", "      room"]


def test_a_validated_node_says_what_it_offers(play: Play) -> None:
    served = answers(play, "device_plugin", resources=RESOURCES)
    text = play.run([served, answers(play, "validate", **CHECKS)])
    assert "  n1: ready, 10 checks hold, 2 GPU + 12 MIG devices offered\n" in text


def test_a_node_that_stays_cordoned_is_called_so(play: Play) -> None:
    fails = {"name": "Break", "speaks": {"fail": "no"}}
    cordon = answers(play, "drain", "inventory_hostname == 'n1'", cordoned=True)
    lines = end(play.run([cordon, fails], hosts=("n1", "n2")))
    assert [line.split()[1:] for line in lines[1:3]] == [
        ["0", "failed,", "cordoned"],
        ["0", "failed"],
    ]


def test_what_validate_itself_says_of_a_node_is_taken(play: Play) -> None:
    text = play.run([answers(play, "validate", **CHECKS, summary="ready, 4 GPUs")])
    assert "  n1: ready, 4 GPUs\n" in text


def test_a_node_is_not_ready_after_a_failure(play: Play) -> None:
    fails = {"name": "Break", "speaks": {"fail": "no"}}
    assert "ready" not in play.run([answers(play, "validate", **CHECKS), fails])


def test_a_node_without_a_gpu_by_the_genuine_module(play: Play) -> None:
    text = play.run([{"name": "Look", "gpu.node.gpu_info": {}}])
    assert end(text)[1].split() == ["n1", "no", "GPU", "0", "skipped"]


def test_a_host_that_was_never_reached_has_nothing_done(play: Play) -> None:
    tasks = [{"ansible.builtin.set_fact": {"x": 1}}, {"name": "Ask", "speaks": {}}]
    text = play.run(tasks, hosts={"far": FAR, "near": {}})
    assert re.search(r"^  ! .{7}  far   Ask: unreachable$", text, re.MULTILINE)
    assert "  far: changed=0 ok=0 failed=0 unreachable=1 module calls=0\n" in text
    assert "  near: changed=0 ok=2 failed=0 unreachable=0 module calls=1\n" in text
    again = end(text).index("  ! far: Ask")
    assert "192.0.2.1" in end(text)[again + 1]


def test_an_ignored_unreachable_host_is_no_failure(play: Play) -> None:
    one = {"name": "Ask", "speaks": {}, "ignore_unreachable": True}
    text = play.run([one], hosts={"far": FAR})
    assert "Ask: unreachable, ignored" in text
    assert "  ! " not in text
    assert "ignored=1" in text


def test_everything_is_counted(play: Play) -> None:
    fails = {"name": "Break", "speaks": {"fail": "no"}}
    tasks = [
        {"block": [fails], "rescue": [{"name": "Mend", "speaks": {}}]},
        {**fails, "ignore_errors": True},
        {"name": "Not", "speaks": {}, "when": False},
        {"name": "Each", "speaks": {}, "loop": [1, 2, 3], "when": "item != 2"},
    ]
    words = "changed=0 ok=3 failed=0 unreachable=0 module calls=5 skipped=1 rescued=1 ignored=1"
    text = play.run(tasks)
    assert f"  n1: {words}\n" in text
    assert end(text)[1].split() == ["n1", "0", "rescued"]


def test_long_names_are_aligned_told_apart_and_once_in_full(play: Play) -> None:
    names = [LONG.format(one) for one in ("0001", "0002", "0011")]
    text = play.run([{"name": "Do it", "speaks": {}}], hosts=(*names, "short"))
    shown = [line.split()[3] for line in text.splitlines() if line.endswith("  Do it")]
    assert len(set(shown)) == 4
    assert all(len(one) <= 32 for one in shown)
    assert {one[-4:] for one in shown} == {"0001", "0002", "0011", "hort"}
    assert len({line.index("Do it") for line in text.splitlines() if line.endswith("  Do it")}) == 1
    assert all(text.count(name) == 1 for name in names)


def test_the_table_has_the_order_of_the_inventory(play: Play) -> None:
    lines = end(play.run([{"name": "Do it", "speaks": {}}], hosts=("n9", "n10", "a")))
    assert [line.split()[0] for line in lines[1:4]] == ["n9", "n10", "a"]


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


def test_batches_are_named_and_what_was_not_run_is_told(play: Play) -> None:
    tasks = [{"name": "Break", "speaks": {"fail": "no"}}, {"name": "More", "speaks": {}}]
    plays = [{"name": "Roll", "hosts": "all", "gather_facts": False, "serial": 2, "tasks": tasks}]
    text = play.run(plays, hosts=("n1", "n2", "n3"))
    assert "\nRoll: 2 of 3 nodes, n1, n2\n" in text
    assert "n3  Break" not in text
    assert "  nothing was run on n3\n" in text


def test_nodes_that_others_failures_have_stopped_are_not_done(play: Play) -> None:
    fails = {"fail": "{{ 'no' if inventory_hostname == 'n1' else omit }}"}
    tasks = [{"name": "Break", "speaks": fails}, {"name": "More", "speaks": {}}]
    roll = {"hosts": "all", "gather_facts": False, "max_fail_percentage": 20, "tasks": tasks}
    text = play.run([{"name": "Roll", **roll}], hosts=("n1", "n2"))
    assert text.count("  the play ends here, as nodes have failed\n") == 1
    assert [line.split() for line in end(text)[1:3]] == [
        ["n1", "0", "failed"],
        ["n2", "0", "stopped"],
    ]


def test_a_play_without_hosts_ends_in_peace(play: Play) -> None:
    play_of_none = {"name": "Nobody", "hosts": "nobody", "tasks": []}
    lines = play.run([play_of_none]).splitlines()
    assert lines[1:3] == ["Nobody", "  no host matches"]
    assert lines[-1].endswith(" s in all")
