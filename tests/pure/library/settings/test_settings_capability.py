# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the module leaves on a node so that GPUs are set again, and that it takes it away."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    NO_PERMISSION,
    Gpu,
    NvmlError,
    SettingsTold,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.settings import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._settings import boot, capability
from ansible_collections.gpu.node.plugins.module_utils._settings.boot import SEEN, Mark

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import FakeNvml

RULES = [{"power_limit": 300}]
GPUS = (gpu(0), gpu(1))


class Gpus(FakeNvml):
    """Two GPUs whose power is limited; ``told`` is what each tells, ``refuses`` what takes no limit."""

    def __init__(self) -> None:
        super().__init__(*GPUS)
        self.told = {one.uuid: 400_000 for one in GPUS}
        self.refuses = ""

    def handle(self, one: Gpu) -> str:
        return one.uuid

    def settings(self, handle: str) -> SettingsTold:
        now = {"power_limit": self.told[handle]}
        return SettingsTold(now, (100_000, 400_000), 400_000, energy=5000)

    def set_to(self, handle: str, _name: str, value: int) -> None:
        if handle == self.refuses:
            raise NvmlError(NO_PERMISSION, "setting")
        self.told[handle] = value


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    made = Gpus()
    monkeypatch.setattr(capability, "open_nvml", made.opened)
    monkeypatch.setattr(capability, "settings", made.settings)
    monkeypatch.setattr(capability, "set_to", made.set_to)
    return made


@pytest.fixture
def host() -> FakeHost:
    made = FakeHost({PROGRAM: ""})
    states = "UnitFileState=enabled\nActiveState=active\nInvocationID=a1\n"

    def show(_words: tuple[str, ...]) -> Completed:
        on = ("systemctl", "enable", boot.PATH_UNIT) in made.ran
        return Completed(0, states if on else "InvocationID=a1\n", "")

    made.commands["systemctl",] = ""
    made.commands["systemctl", "show"] = show
    return made


def converge(host: FakeHost, *, check_mode: bool = False, **params: Any) -> list[str]:
    """Bring the node there; return the steps in words."""
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    one = capability.SettingsCapability(host, {**defaults, **params}, check_mode=check_mode)
    steps = one.plan(one.observe()).steps
    for step in () if check_mode else steps:
        one.apply(step)
    return [step.summary for step in steps]


@pytest.mark.usefixtures("gpus")
def test_what_sets_the_gpus_again_is_written_once_and_removed(host: FakeHost) -> None:
    before = set(host.files)
    planned = converge(host, check_mode=True, rules=RULES)
    assert converge(host, rules=RULES) == planned
    assert boot.load(host.files[boot.CONFIG], boot.CONFIG)[0] == RULES
    assert ("systemctl", "restart", boot.PATH_UNIT) in host.ran
    seen = Mark("", "a1", False, 5000)
    assert boot.load_seen(host.files[SEEN]) == {one.uuid: seen for one in GPUS}
    assert converge(host, rules=RULES) == []
    assert converge(host, rules=[{"power_limit": 200}])[-1].startswith(f"write {boot.CONFIG}")
    converge(host, state="absent")
    assert set(host.files) == before
    assert ("systemctl", "disable", "--now", boot.PATH_UNIT, boot.UNIT) in host.ran


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("less", [{"boot": False, "rules": RULES}, {"rules": []}])
def test_nothing_is_written_where_nothing_is_to_be_set_again(
    host: FakeHost, less: dict[str, Any]
) -> None:
    converge(host, **less)
    ours = {boot.CONFIG, SEEN, *(f"/etc/systemd/system/{one}" for one in boot.TEXTS)}
    assert not ours & set(host.files)
    converge(host, rules=RULES)
    assert ours <= set(host.files)
    converge(host, **less)
    assert not ours & set(host.files)


def test_without_its_program_nothing_is_set(gpus: Gpus, host: FakeHost) -> None:
    del host.files[PROGRAM]
    with pytest.raises(NodeError, match=r"gpu-plugin, which sets the GPUs again.*boot to false"):
        converge(host, rules=RULES)
    assert set(gpus.told.values()) == {400_000}


def test_gpus_count_as_set_once_all_are(gpus: Gpus, host: FakeHost) -> None:
    gpus.refuses = GPUS[1].uuid
    with pytest.raises(NodeError):
        converge(host, rules=RULES)
    assert SEEN not in host.files
    gpus.refuses = ""
    converge(host, rules=RULES)
    assert len(boot.load_seen(host.files[SEEN])) == 2


def test_a_gpu_that_does_not_tell_its_settings_is_left_alone(
    gpus: Gpus, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(handle: str) -> SettingsTold:
        if handle == GPUS[0].uuid:
            raise NvmlError(16, "reading the settings of a GPU", gpu_index=0)
        return gpus.settings(handle)

    monkeypatch.setattr(capability, "settings", tell)
    converge(host, boot=False, rules=RULES)
    assert list(gpus.told.values()) == [400_000, 300_000]


def test_a_node_without_settings_needs_no_driver_to_have_none(host: FakeHost) -> None:
    assert converge(host, state="absent") == []
