# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A specification of somebody else at the path of ours: it is recorded, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine import replaced
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host, Status

from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import FakeNvml, HostWithDriver

# As `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` leaves one.
BY_HAND = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
kind: nvidia.com/gpu
"""
COMPACT = (
    '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{}}]}'
)
by_somebody = pytest.mark.parametrize("text", [BY_HAND, COMPACT])


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HostWithDriver:
    monkeypatch.setattr(cdi, "open_nvml", FakeNvml(gpu(0), gpu(1)).opened)
    return HostWithDriver()


def capability(host: HostWithDriver, **params: Any) -> cdi.CdiCapability:
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    return cdi.CdiCapability(host, {**defaults, "boot": False, **params}, check_mode=False)


def converge(host: HostWithDriver, **params: Any) -> list[str]:
    """Bring the node to the desired state and return the steps in words."""
    found = capability(host, **params)
    steps = found.plan(found.observe()).steps
    for step in steps:
        found.apply(step)
    assert found.plan(found.observe()).steps == ()
    return [step.summary for step in steps]


@by_somebody
def test_a_specification_of_somebody_else_comes_back_with_absent(
    host: HostWithDriver, text: str
) -> None:
    host.files[PATH] = text
    assert converge(host) == [
        f"replace {PATH}, which something else wrote and which comes back with state absent"
    ]
    assert host.files[PATH] != text
    assert converge(host) == []
    assert converge(host, state="absent") == [f"restore {PATH} as it was before"]
    assert host.files[PATH] == text
    assert replaced.RECORD not in host.files
    assert converge(host, state="absent") == []


@by_somebody
def test_absent_leaves_a_specification_alone_that_was_never_replaced(
    host: HostWithDriver, text: str
) -> None:
    host.files[PATH] = text
    assert converge(host, state="absent") == []
    assert host.files[PATH] == text


def test_it_comes_back_too_if_ours_is_gone_or_is_written_elsewhere(host: HostWithDriver) -> None:
    host.files[PATH] = BY_HAND
    converge(host)
    del host.files[PATH]
    converge(host, state="absent")
    assert host.files[PATH] == BY_HAND


def test_ours_is_removed_and_none_is_recorded(host: HostWithDriver) -> None:
    converge(host)
    assert replaced.RECORD not in host.files
    converge(host, state="absent")
    assert PATH not in host.files


def test_the_mode_of_a_file_of_somebody_else_is_not_given_back_to_root(
    host: HostWithDriver,
) -> None:
    host.files[PATH] = BY_HAND
    found = capability(host)
    assert PATH not in found.own(found.observe()).modes
    converge(host)
    assert found.own(found.observe()).modes[PATH] == 0o644


def test_a_torn_record_is_refused_before_anything_is_replaced(host: HostWithDriver) -> None:
    host.files[replaced.RECORD] = '{"/etc/cdi/nvidia.yaml": {"text"'
    found = capability(host)
    with pytest.raises(NodeError, match=f"{replaced.RECORD} is damaged: .*from a backup"):
        found.observe()


def test_mode_and_owner_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced, "RECORD", str(tmp_path / "cdi.json"))
    owners: list[tuple[int, int]] = []

    class Owned(Host):
        def status(self, path: str) -> Status | None:
            return Status(0o100640, 12, 1, 0, 34)

        def chown(self, path: str, uid: int, gid: int) -> None:
            owners.append((uid, gid))

    path = tmp_path / "nvidia.yaml"
    path.write_text(BY_HAND)
    replaced.keep(Owned(), str(path))
    assert (tmp_path / "cdi.json").stat().st_mode & 0o777 == 0o600
    path.write_text("{}")
    replaced.restore(Owned(), str(path))
    assert path.read_text() == BY_HAND
    assert path.stat().st_mode & 0o777 == 0o640
    assert owners == [(12, 34)]
