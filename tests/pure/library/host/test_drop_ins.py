# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A drop-in that sets again what keeps one of our units safe is named; what adds to a unit is a user's choice."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine import drop_ins
from ansible_collections.gpu.node.plugins.module_utils._machine.own_files import OwnFiles

from tests.fakes.library.fakes import FakeHost
from tests.support.paths import REPOSITORY

UNIT = "/etc/systemd/system/gpu-device-plugin.service"
TEXT = (REPOSITORY / "files/gpu_plugin/systemd/gpu-device-plugin.service").read_text()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[Service]\nProtectSystem=no\n", ["ProtectSystem"]),
        ("[Service]\nExecStart=\nExecStart=/usr/local/bin/mine\n", ["ExecStart"]),
        ("[Service]\nWatchdogSec=0\nNoNewPrivileges = no\n", ["WatchdogSec", "NoNewPrivileges"]),
        ("[Service]\nCapabilityBoundingSet=\\\n  CAP_SYS_PTRACE\n", ["CapabilityBoundingSet"]),
        ("[Service]\nEnvironment=HTTPS_PROXY=http://proxy:3128\nMemoryMax=2G\n", []),
        ("[Unit]\nAfter=my-mount.service\nRequiresMountsFor=/srv\n", []),
        ("[Service]\nCPUQuota=20%\nLimitNOFILE=65536\nTasksMax=infinity\n", []),
        ("[Service]\nMemoryMax=50%\nMemoryHigh=512M\nTasksMax=10%\n", []),
        ("[Service]\nMemoryMax=1M\nTasksMax=2\n", ["MemoryMax", "TasksMax"]),
        ("[Service]\nMemoryMax=1%\nCPUQuota=1%\n", ["MemoryMax", "CPUQuota"]),
        ("[Service]\nLimitNOFILE=0\nLimitAS=0\n", ["LimitNOFILE", "LimitAS"]),
        ("[Unit]\nRequires=none.service\nConflicts=a.service\n", ["Requires", "Conflicts"]),
        ("[Unit]\nBindsTo=a.service\nStopWhenUnneeded=yes\n", ["BindsTo", "StopWhenUnneeded"]),
        (
            "[Unit]\nFailureAction=reboot\nSuccessAction=poweroff\n",
            ["FailureAction", "SuccessAction"],
        ),
        (
            "[Service]\nExecStartPre=/bin/false\nExecStartPost=/bin/a\n",
            ["ExecStartPre", "ExecStartPost"],
        ),
        (
            "[Service]\nInaccessiblePaths=/dev\nBindPaths=/a:/b\n",
            ["InaccessiblePaths", "BindPaths"],
        ),
        ("[Service]\nDeviceAllow=/dev/null r\nNoExecPaths=/\n", ["DeviceAllow", "NoExecPaths"]),
        ("[Path]\nUnit=other.service\n", ["Unit"]),
        ("[Service]\nTimeoutStopFailureMode=abort\n", []),
        ("[Service]\n# ProtectSystem=no\n; ProtectSystem=no\nProtectSystem=strict\n", []),
        ("[Unit]\nConditionPathExists=/srv\n", ["ConditionPathExists"]),
        ("[Service]\nPrivateDevices=yes\nUser=nobody\n", ["PrivateDevices", "User"]),
        ("[Service]\nPrivateDevices=no\nUser=root\nIOWeight=50\n", []),
        ("", []),
    ],
)
@pytest.mark.parametrize("folder", drop_ins.FOLDERS)
def test_what_weakens_or_replaces_is_named(folder: str, text: str, names: list[str]) -> None:
    drop_in = f"{folder}/gpu-device-plugin.service.d/mine.conf"
    host = FakeHost({UNIT: TEXT, drop_in: text})
    said = OwnFiles(host, {UNIT: 0o644}).warnings()  # type: ignore[arg-type]
    assert len(said) == bool(names)
    for one in said:
        assert one.startswith(f"{drop_in} overrides what gpu-device-plugin.service sets, or ")
        assert f": {', '.join(names)}. Next step: remove" in one
        assert "systemctl restart gpu-device-plugin.service" in one


def test_what_is_no_unit_and_no_drop_in_is_not_read() -> None:
    files = {UNIT: TEXT, f"{UNIT}.d/mine.conf.off": "[Service]\nProtectSystem=no\n"}
    host = FakeHost({**files, "/etc/gpu-node/config.yaml.d/a.conf": "[Service]\nType=simple\n"})
    modes = {UNIT: 0o644, "/etc/gpu-node/config.yaml": 0o644}
    assert OwnFiles(host, modes).warnings() == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "folder", ["gpu-device-plugin.service", "gpu-device-.service", "gpu-.service", "service"]
)
def test_a_drop_in_of_several_units_is_named_once_with_all_of_ours(folder: str) -> None:
    labels = "/etc/systemd/system/gpu-node-labels.service"
    text = "[Service]\nProtectSystem=no\n"
    drop_in = f"/usr/lib/systemd/system/{folder}.d/mine.conf"
    host = FakeHost({UNIT: TEXT, labels: TEXT, drop_in: text})
    (said,) = OwnFiles(host, {UNIT: 0o644, labels: 0o644}).warnings()  # type: ignore[arg-type]
    both = folder in ("gpu-.service", "service")
    units = ["gpu-device-plugin.service", *(["gpu-node-labels.service"] if both else [])]
    which = f"each of {', '.join(units)}" if both else units[0]
    assert said.startswith(f"{drop_in} overrides what {which} sets, or ")
    assert f"systemctl restart {' '.join(units)}; " in said


@pytest.mark.parametrize("folder", drop_ins.FOLDERS)
def test_of_drop_ins_with_one_name_the_first_counts(folder: str) -> None:
    weak = {
        f"{one}/gpu-.service.d/mine.conf": "[Service]\nProtectSystem=no\n"
        for one in drop_ins.FOLDERS[drop_ins.FOLDERS.index(folder) :]
    }
    host = FakeHost({UNIT: TEXT, **weak})
    (said,) = OwnFiles(host, {UNIT: 0o644}).warnings()  # type: ignore[arg-type]
    assert said.startswith(f"{folder}/gpu-.service.d/mine.conf ")
    host.files[f"{folder}/gpu-.service.d/mine.conf"] = ""  # as of a link to /dev/null
    assert OwnFiles(host, {UNIT: 0o644}).warnings() == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", drop_ins.CONTROL)
def test_a_unit_in_the_place_of_ours_is_named(folder: str) -> None:
    other = f"{folder}/gpu-device-plugin.service"
    host = FakeHost({UNIT: TEXT, other: TEXT})
    (said,) = OwnFiles(host, {UNIT: 0o644}).warnings()  # type: ignore[arg-type]
    assert said.startswith(f"systemd reads {other} in the place of {UNIT}. Next step: remove it")
