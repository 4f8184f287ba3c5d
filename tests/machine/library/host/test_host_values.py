# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a kernel is set to while it runs, by the node's own shell on a /sys in a folder."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host import boot, live
from ansible_collections.gpu.node.plugins.module_utils._host.state import PATH
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.host.host_nodes import Killed, run
from tests.fakes.host.host_tree import ABOVE, HostTree, capabilities

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
ALL = {
    "acs": "disabled",
    "hugepages": {"2M": 64},
    "governor": "performance",
    "numa_balancing": "disabled",
}
SOME = {"acs": "disabled", "governor": "performance"}
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy{}/scaling_governor"
NUMBER = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


def has(tree: HostTree) -> tuple[Any, ...]:
    texts = [(tree.root / name).read_text().strip() for name in (GOVERNOR.format(0), NUMBER)]
    numa = (tree.root / "proc/sys/kernel/numa_balancing").read_text().strip()
    return ({tree.controls()[one] for one in ABOVE}, *texts, numa)


def test_what_is_asked_for_is_set_and_a_second_run_changes_nothing(tree: HostTree) -> None:
    before = has(tree)
    planned = run(tree, check=True, **ALL)
    assert has(tree) == before == ({0x1D}, "schedutil", "0", "1")
    done = run(tree, **ALL)
    assert done["steps"] == planned["steps"]
    assert next(one["summary"] for one in done["steps"]) == (
        "numa_balancing: 0 in place of 1 (/proc/sys/kernel/numa_balancing)"
    )
    assert has(tree) == ({0}, "performance", "64", "0")
    assert tree.controls()["0000:15:02.0"] == 0x1D  # above a disk
    assert not run(tree, **ALL)["changed"]
    run(tree, state="absent")
    assert has(tree) == before
    assert not run(tree, state="absent")["changed"]
    for path in (PATH, boot.CONFIG, "/etc/systemd/system/gpu-host.service"):
        assert not tree.exists(path)


def test_the_unit_sets_it_again_after_a_boot(tree: HostTree) -> None:
    run(tree, **ALL)
    tree.lose()
    drifted = run(tree, check=True, **ALL)
    assert {one["summary"].partition(":")[0] for one in drifted["steps"]} == {"acs", "governor"}
    done = tree.boot_program()
    assert (done.rc, done.err) == (0, "")
    assert not run(tree, check=True, **ALL)["changed"]


def test_what_nothing_asks_for_any_more_becomes_what_it_was(tree: HostTree) -> None:
    run(tree, **ALL)
    run(tree, **{**ALL, "acs": "unmanaged", "governor": "unmanaged"})
    assert has(tree) == ({0x1D}, "schedutil", "64", "0")
    assert "acs_off" not in (tree.read(boot.CONFIG) or "").splitlines()


def test_what_there_was_first_comes_back_after_a_hand_has_changed_it(tree: HostTree) -> None:
    run(tree, **ALL)
    tree.put(GOVERNOR.format(0), "powersave\n")
    drifted = run(tree, **ALL)
    assert "governor: performance in place of powersave" in drifted["steps"][0]["summary"]
    run(tree, state="absent")
    assert has(tree)[1] == "schedutil"


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        (GOVERNOR.format(1), "powersave", "governor: performance in place of powersave"),
        (NUMBER, "63", "hugepages: 64 in place of 63"),
        ("proc/sys/kernel/numa_balancing", "1", "numa_balancing: 0 in place of 1"),
        ("etc/gpu-node/host", "#!/bin/sh", "write /etc/gpu-node/host"),
        ("etc/gpu-node/host", None, "write /etc/gpu-node/host"),
        ("etc/systemd/system/gpu-host.service", "[Unit]", "write /etc/systemd/system/gpu-host"),
        ("etc/systemd/system/gpu-host.service", None, "write /etc/systemd/system/gpu-host"),
    ],
)
def test_what_a_hand_has_changed_is_named_by_one_look_and_put_right_by_the_next_run(
    tree: HostTree, path: str, text: str | None, named: str
) -> None:
    run(tree, **ALL)
    before = tree.files()
    if text is None:
        tree.remove(f"/{path}")
    else:
        tree.put(path, f"{text}\n")
    looked = run(tree, check=True, **ALL)
    assert [one["summary"][: len(named)] for one in looked["steps"]] == [named]
    run(tree, **ALL)
    assert tree.files() == before


def test_acs_that_is_on_again_at_one_bridge_is_named_by_its_address(tree: HostTree) -> None:
    run(tree, **ALL)
    config = tree.root / "sys/bus/pci/devices" / ABOVE[2] / "config"
    data = bytearray(config.read_bytes())
    struct.pack_into("<H", data, 0x14E, 0x1D)
    config.write_bytes(bytes(data))
    (step,) = run(tree, check=True, **ALL)["steps"]
    assert step["summary"] == f"acs: 0000 in place of 001d ({ABOVE[2]})"
    run(tree, **ALL)
    assert has(tree)[0] == {0}


def test_a_record_that_is_gone_or_torn_is_told(tree: HostTree) -> None:
    run(tree, **ALL)
    kept = tree.read(PATH) or ""
    tree.remove(PATH)
    assert f"{PATH} is not there" in run(tree, check=True, **ALL)["warnings"][0]
    tree.put(PATH.lstrip("/"), kept[:30])
    assert PATH in str(refused_in(tree, **ALL))
    tree.put(PATH.lstrip("/"), kept)
    assert run(tree, check=True, **ALL)["warnings"] == []


@pytest.mark.parametrize(
    "params", [SOME, pytest.param({"state": "absent"}, marks=pytest.mark.long)]
)
def test_what_a_killed_run_has_left_is_finished_by_the_next(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    for at in range(40):
        tree = HostTree(tmp_path / str(at))
        first = has(tree)
        if params != SOME:
            run(tree, **SOME)
        tree.until, tree.changes = at, 0
        ended = True
        try:
            run(tree, **params)
        except Killed:
            ended = False
        tree.until = -1
        run(tree, **params)
        assert not run(tree, **params)["changed"]
        assert has(tree) == (({0}, "performance", *first[2:]) if params == SOME else first)
        run(tree, state="absent")
        assert has(tree) == first
        if ended:
            return
    raise AssertionError("it never ended")


def test_acs_stays_on_a_host_that_hands_devices_to_guests(tree: HostTree) -> None:
    run(tree, **ALL)
    tree.lose()
    tree.put("sys/bus/pci/drivers/vfio-pci/0000:19:00.0", "")
    error = refused_in(tree, acs="disabled")
    assert "0000:19:00.0 has the driver vfio-pci" in error.cause
    done = tree.boot_program()
    assert (done.rc, "so ACS stays as it is" in done.err) == (1, True)
    assert set(tree.controls().values()) == {0x1D}
    assert has(tree)[1] == "performance"


def refused_in(tree: HostTree, **params: Any) -> NodeError:
    """Return why the module refuses, before it changes a file."""
    before = tree.files()
    with pytest.raises(NodeError) as error:
        run(tree, **params)
    assert tree.files() == before
    return error.value


def test_a_locked_kernel_a_profile_of_tuned_and_pages_that_it_lacks_are_refused(
    tree: HostTree,
) -> None:
    tree.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert "lockdown: integrity" in refused_in(tree, acs="disabled").cause
    tree.put("run/systemd/units/tuned.service", "")
    tree.put("etc/tuned/active_profile", "throughput-performance\n")
    assert "profile throughput-performance" in refused_in(tree, governor="performance").cause
    for pages, said in (
        ({"1G": 1}, "1G"),
        ({"2M": 1 << 20}, "less than the 64 GiB"),
        ({"2": 1}, "2M"),
    ):
        assert said in str(refused_in(tree, hugepages=pages))


def test_a_virtual_machine_is_told_that_there_is_nothing_to_set(tree: HostTree) -> None:
    shutil.rmtree(tree.root / "sys/devices")
    shutil.rmtree(tree.root / "sys/bus/pci/devices")
    done = run(tree, acs="disabled", governor="performance")
    assert len(done["warnings"]) == 2
    assert not run(tree, acs="disabled", governor="performance")["changed"]


def test_fewer_pages_than_were_asked_for_are_an_error(
    tree: HostTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_out = tree.run

    def fewer(argv: Any, **values: Any) -> Any:
        done = given_out(argv, **values)
        if "put" in argv:
            tree.put(NUMBER, "17\n")
        return done

    monkeypatch.setattr(tree, "run", fewer)
    with pytest.raises(NodeError, match="there are 17 huge pages where 64 are asked for"):
        run(tree, hugepages={"2M": 64})
    monkeypatch.undo()
    run(tree, state="absent")
    assert has(tree)[2] == "0"


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], str]:
    """Return a function that says what the program shows of a bridge with such a configuration."""
    tree = HostTree(tmp_path_factory.mktemp("bridge"))
    config = tree.root / "sys/bus/pci/devices/0000:17:00.0/config"

    def show(data: bytes) -> str:
        config.write_bytes(data)
        words = ["/bin/sh", "-c", boot.PROGRAM, "host", "acs_show"]
        env = {"GPU_NODE_ROOT": str(tree.root), "PATH": os.environ["PATH"]}
        told = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
        lines = [one.split() for one in told.splitlines()]
        return dict(lines).get("0000:17:00.0", "")

    return show


PLACE = st.integers(1, 900).map(lambda one: 0x100 + 4 * one)
LISTED = st.lists(st.tuples(PLACE, st.sampled_from([1, 0xB, 0xD, 0x19])), max_size=6)


@given(listed=LISTED, control=st.integers(0, 0xFFFF))
@settings(max_examples=25, deadline=None)
def test_the_control_register_is_found_wherever_it_is(
    bridge: Callable[[bytes], str], listed: list[tuple[int, int]], control: int
) -> None:
    places = dict(listed)
    chain = [(0x100, 3), *places.items()]
    config = capabilities(*chain)
    at = next((one for one, number in chain if number == 0xD), None)
    if at is not None:
        header = struct.unpack_from("<I", config, at)[0]
        if at + 8 <= len(config) and at + 4 not in places:
            struct.pack_into("<H", config, at + 6, control)
            assert struct.unpack_from("<I", config, at)[0] == header
            assert bridge(bytes(config)) == f"{control:04x}"
        return
    assert bridge(bytes(config)) == ""


@pytest.mark.parametrize(
    "config",
    [
        b"",
        bytes(256),  # what is shown to who is not root
        b"\xff" * 4096,  # a bridge that has gone
        bytes(capabilities((0x100, 1), (0x200, 2), (0x100, 1))),  # a ring
        bytes(capabilities((0x100, 1), (0xFFC, 0xD))),  # beyond the end
    ],
)
def test_a_configuration_that_is_broken_has_no_register(
    bridge: Callable[[bytes], str], config: bytes
) -> None:
    assert bridge(config) == ""


def test_shellcheck_takes_the_program(tmp_path: Path) -> None:
    path = tmp_path / "host"
    asked = live.DesiredValues(acs=True, pages={2048: 1}, governor="performance", numa=True)
    path.write_text(boot.text(live.boot_lines(asked)) or "")
    subprocess.run(["shellcheck", path], check=True)
