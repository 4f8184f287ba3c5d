# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What keeps the CDI specification up to date is written once, and taken away as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import BootState
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi.boot import Options
from ansible_collections.gpu.node.plugins.module_utils._cdi.capabilities import ALL, CAPABILITIES
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel import device_nodes
from ansible_collections.gpu.node.plugins.module_utils._mig import boot as mig_boot
from ansible_collections.gpu.node.plugins.module_utils._settings import boot as settings_boot
from hypothesis import given
from hypothesis import strategies as st

TEXT = cdi_boot.dump(Options("/etc/cdi/nvidia.yaml"))
ON = {
    cdi_boot.UNIT: {"UnitFileState": "enabled", "ActiveState": "inactive"},
    cdi_boot.PATH_UNIT: {"UnitFileState": "enabled", "ActiveState": "active"},
}
NONE = BootState(None, dict.fromkeys(cdi_boot.TEXTS), {}, True)
DONE = BootState(TEXT, cdi_boot.TEXTS, ON, True)


def actions(state: BootState, wanted: str | None, *, check_mode: bool = False) -> list[str]:
    return [
        step.action
        for step in cdi_boot.BOOT.plan(state, wanted, cdi_boot.TEXTS, check_mode=check_mode)
    ]


def test_all_of_it_and_then_nothing() -> None:
    assert actions(NONE, TEXT) == ["boot_config", "boot_unit", "boot_unit", "boot_enable"]
    assert actions(DONE, TEXT) == []
    assert actions(DONE, None) == ["boot_remove"]
    assert actions(NONE, None) == []


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ({cdi_boot.UNIT: {"UnitFileState": "disabled"}}, ["boot_enable"]),
        ({cdi_boot.PATH_UNIT: {"UnitFileState": "disabled"}}, ["boot_enable"]),
        (
            {cdi_boot.PATH_UNIT: {"UnitFileState": "enabled", "ActiveState": "failed"}},
            ["boot_enable"],
        ),
        (
            {cdi_boot.UNIT: {"UnitFileState": "enabled", "ActiveState": "failed"}},
            ["boot_forget"],
        ),
        ({cdi_boot.UNIT: {"UnitFileState": "enabled", "NeedDaemonReload": "yes"}}, ["boot_unit"]),
    ],
)
def test_units_that_are_off_failed_or_read_before_they_changed(
    services: Any, expected: list[str]
) -> None:
    assert actions(DONE._replace(services={**ON, **services}), TEXT) == expected


def test_half_of_it_is_finished_or_removed() -> None:
    old = DONE._replace(units={**cdi_boot.TEXTS, cdi_boot.PATH_UNIT: "# older\n"})
    assert actions(old, TEXT) == ["boot_unit"]
    assert actions(NONE._replace(units={cdi_boot.PATH_UNIT: ""}), None) == ["boot_remove"]


def test_program_that_is_missing_is_named_before_anything_is_written() -> None:
    bare = NONE._replace(program=False)
    with pytest.raises(NodeError, match=r"gpu-plugin.* is not on the node.*set boot to false"):
        cdi_boot.BOOT.plan(bare, TEXT, cdi_boot.TEXTS, check_mode=False)
    assert actions(bare, TEXT, check_mode=True) != []
    assert actions(DONE._replace(program=False), TEXT) == []


OPTIONS = (st.text(), st.text(), st.lists(st.text()).map(tuple), st.text())


CHOSEN = st.lists(st.sampled_from([*CAPABILITIES, ALL])).map(tuple)


@given(st.builds(Options, *OPTIONS, st.sampled_from(["nvml", "nvidia-ctk"]), CHOSEN))
def test_options_survive_the_file(options: Options) -> None:
    assert cdi_boot.load(cdi_boot.dump(options), "x") == options


def test_options_with_no_such_generator_are_refused() -> None:
    values = {"path": "/x", "hooks": "auto", "library_folders": [], "driver_root": "/"}
    with pytest.raises(NodeError, match="generator: 'guess' is not one of nvml, nvidia-ctk"):
        cdi_boot.load(json.dumps({**values, "generator": "guess"}), "x")


def test_options_of_a_version_before_there_were_capabilities_are_read() -> None:
    values = {"path": "/x", "hooks": "auto", "library_folders": [], "driver_root": "/"}
    text = json.dumps({**values, "generator": "nvml"})
    assert cdi_boot.load(text, "x") == Options("/x")


def test_options_with_no_such_capability_are_refused() -> None:
    values = Options("/x", capabilities=("compute", "sound"))._asdict()
    with pytest.raises(NodeError, match="capabilities: 'sound' is not one of compute, utility,"):
        cdi_boot.load(json.dumps(values), "x")


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"path": "/x"}'])
def test_damaged_options_are_named(text: str) -> None:
    with pytest.raises(NodeError, match=r"/x is damaged.*run gpu\.node\.cdi again"):
        cdi_boot.load(text, "/x")


def settings(text: str, key: str) -> list[str]:
    lines = [line.partition("=") for line in text.splitlines()]
    return [word for name, _equals, value in lines if name == key for word in value.split()]


UNITS = [
    cdi_boot.SERVICE_TEXT,
    settings_boot.SERVICE_TEXT,
    mig_boot.UNIT_TEXT,
    device_nodes.UNIT_TEXT,
]


@pytest.mark.parametrize("text", UNITS)
def test_what_runs_containers_starts_after_the_gpus_are_as_they_should_be(
    text: str,
) -> None:
    kubelets = {"kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent"}
    runtimes = {"containerd", "docker", "crio"}
    wanted = {f"{name}.service" for name in (*kubelets, *runtimes, "gpu-device-plugin")}
    assert wanted <= set(settings(text, "Before"))
    # Ordering only: what would require it does not start where a GPU is broken.
    assert not settings(text, "RequiredBy")


def test_all_together_keep_a_kubelet_waiting_for_half_a_minute_at_most() -> None:
    """Each tells that it has started once nothing has happened for so long, whether it is done or not."""
    units = {
        cdi_boot.SERVICE_TEXT: (cdi_boot.PATIENCE, "--patience {}"),
        mig_boot.UNIT_TEXT: (mig_boot.PATIENCE, "--patience {}"),
        device_nodes.UNIT_TEXT: (device_nodes.PATIENCE, "Environment=PATIENCE={}"),
    }
    assert (
        sum(seconds for seconds, _form in units.values()) <= 27
    )  # the rest is for programs to start
    # Neither is ordered after the other.
    beside = {settings_boot.SERVICE_TEXT: (settings_boot.PATIENCE, "--patience {}")}
    assert settings_boot.PATIENCE <= cdi_boot.PATIENCE
    assert settings_boot.UNIT not in settings(cdi_boot.SERVICE_TEXT, "After")
    assert cdi_boot.UNIT not in settings(settings_boot.SERVICE_TEXT, "After")
    for text, (seconds, form) in {**units, **beside}.items():
        assert settings(text, "Type") == ["notify"]
        # Those take their own time to start or to fail, for which all that comes after would wait.
        assert not any(one.startswith("nvidia-") for one in settings(text, "After"))
        assert form.format(seconds) in text


def test_device_nodes_are_noticed_by_a_list_of_them_and_not_by_their_use() -> None:
    """A path unit starts its service when a node is closed: at the end of each program that uses a GPU."""
    watched = settings(cdi_boot.PATH_TEXT, "PathChanged")
    assert cdi_boot.NODES in watched
    # Of two files of a folder one hides the change of the other while it is waited for.
    folders = [one.rpartition("/")[0] for one in watched]
    assert len(set(folders)) == len(folders)
    assert [one for one in watched if one.startswith("/dev/")] == ["/dev/nvidia-caps"]
