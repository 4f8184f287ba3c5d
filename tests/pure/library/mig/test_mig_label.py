# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig where a label of the node may choose the layout, on a machine of dictionaries without a driver."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM, unit_file
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NvmlError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC
from ansible_collections.gpu.node.plugins.module_utils._mig import capability, label
from ansible_collections.gpu.node.plugins.module_utils._mig.boot import CONFIG, UNIT
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import MigCapability
from ansible_collections.gpu.node.plugins.module_utils._mig.config import Declared
from ansible_collections.gpu.node.plugins.module_utils._mig.machine import nvml

from tests.fakes.library.fakes import FakeHost

OFF = [{"devices": "all", "mig-enabled": False}]
LAYOUTS = {"version": "v1", "mig-configs": {"a": OFF, "b": OFF}}
DEFAULTS = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_arguments: object) -> None:
        raise NvmlError(9, "starting NVML")

    monkeypatch.setattr(capability, "open_nvml", absent)


def node(**files: str) -> FakeHost:
    shown = {"ActiveState": "active", "UnitFileState": "enabled"}
    lines = "".join(f"{key}={text}\n" for key, text in shown.items())
    return FakeHost({PROGRAM: "", **files}, {("systemctl",): lines})


def plan(host: FakeHost, **params: Any) -> Plan:
    one = MigCapability(host, {**DEFAULTS, "config": LAYOUTS, **params}, check_mode=True)  # type: ignore[arg-type]
    return one.plan(one.observe())


def steps(found: Plan) -> list[str]:
    return [step.summary for step in found.steps]


def test_what_the_label_chose_counts() -> None:
    host = node(**{label.CHOSEN: "b\n"})
    assert steps(plan(host, selected="a", by_label=True))[0].startswith("partition GPUs as b once")
    assert steps(plan(host, selected="a"))[0].startswith("partition GPUs as a once")
    host.files[label.CHOSEN] = "../../a\n"
    assert steps(plan(host, selected="a", by_label=True))[0].startswith("partition GPUs as a once")


def test_a_torn_record_of_earlier_layouts_is_refused_before_anything_changes() -> None:
    with pytest.raises(NodeError, match=rf"{nvml.BEFORE} is damaged.*Next step: remove the file"):
        plan(node(**{nvml.BEFORE: '{"GPU-1": '}), selected="a")


def test_units_come_and_go_with_the_users_word() -> None:
    host = node()
    wanted = plan(host, selected="a", by_label=True)
    written: dict[str, str] = {}
    for step in wanted.steps:
        written.update(step.params.get("write", {}))
    assert set(written) == {CONFIG, *map(unit_file, (UNIT, *label.TEXTS))}
    assert Declared.load(written[CONFIG], CONFIG).by_label
    host.files.update(written)
    assert len(plan(host, selected="a", by_label=True).steps) == 1  # the driver's
    back = steps(plan(host, selected="a"))[1:]
    assert back == [
        f"write {CONFIG}, for the next boot",
        f"remove {label.UNIT}, {label.PATH_UNIT}, and what the label chose",
    ]
    assert len(steps(plan(host, selected="all-disabled", config=None, boot=False))) == 3


def test_with_boot_left_alone_nothing_is_written() -> None:
    assert len(plan(node(), selected="a", boot=None).steps) == 1


@pytest.mark.parametrize(
    "params", [{"config": None, "selected": "all-balanced"}, {"config": OFF}, {"boot": False}]
)
def test_what_labels_can_not_choose_from_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="by_label: True is not valid"):
        plan(node(), **{"selected": "", **params, "by_label": True})
