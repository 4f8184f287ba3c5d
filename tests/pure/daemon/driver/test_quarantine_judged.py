# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in quarantine beside what is wrong with a GPU."""

from __future__ import annotations

from dataclasses import replace

from gpu_plugin._shared._node.quarantine import OPERATOR, Quarantine, Quarantined
from gpu_plugin.driver.watch import Onsets, unhealthy
from gpu_plugin.model.inventory import Inventory, Kind, Problem, judged
from gpu_plugin.tools.status import quarantined

from tests.fakes.daemon.gpu_builders import inventory, view

ASIDE = Quarantined(OPERATOR, "a fan", "", 1_800_000_000.0)
SAID = "in quarantine since 2027-01-15T08:00:00Z by an operator: a fan"


def node(found: Quarantine) -> Inventory:
    return replace(inventory(view(0), view(1, "1g.10gb")), quarantine=found)


def kinds(found: Inventory, **faults: Problem) -> list[tuple[Kind | None, str]]:
    given = {(uuid.replace("_", "-"), None, None): one for uuid, one in faults.items()}
    return [
        (one.problem.kind if one.problem else None, one.quarantined)
        for one in judged(found, given).gpus
    ]


def test_a_gpu_or_all_of_the_node_is_set_aside() -> None:
    assert kinds(node(Quarantine())) == [(None, ""), (None, "")]
    one = kinds(node(Quarantine({"GPU-1": ASIDE})))
    assert one == [(None, ""), (Kind.QUARANTINED, "a fan")]
    assert kinds(node(Quarantine({}, ASIDE))) == [(Kind.QUARANTINED, "a fan")] * 2


def test_a_gpus_own_entry_counts_before_the_nodes() -> None:
    both = Quarantine({"GPU-0": ASIDE._replace(reason="XID 79")}, ASIDE)
    assert [text for _kind, text in kinds(node(both))] == ["XID 79", "a fan"]


def test_what_is_wrong_with_it_is_told_first_and_hides_no_quarantine() -> None:
    fault = Problem(Kind.FAULT, "XID 48")
    found = node(Quarantine({"GPU-0": ASIDE}))
    assert kinds(found, GPU_0=fault)[0] == (Kind.FAULT, "a fan")
    gone = replace(found, absent="no driver")
    assert kinds(gone)[0] == (Kind.NO_DRIVER, "a fan")


def test_each_is_among_what_is_unhealthy_with_its_own_time_and_way_back() -> None:
    rows = unhealthy(node(Quarantine({"GPU-0": ASIDE, "GPU-9": ASIDE})), {}, Onsets(), 1e9)
    assert [(one.gpu, one.index, one.kind) for one in rows] == [
        ("GPU-0", "0", "quarantined"),
        ("GPU-9", "", "quarantined"),
    ]
    assert {(one.reason, one.since, one.way_back, one.clearable) for one in rows} == {
        (SAID, 1_800_000_000, "gpu.node.release", False)
    }
    whole = unhealthy(node(Quarantine({}, ASIDE)), {}, Onsets(), 1e9)
    assert [one.gpu for one in whole] == ["GPU-0", "GPU-1"]


def test_a_state_of_an_earlier_release_has_nothing_in_quarantine() -> None:
    assert quarantined({}) == []
