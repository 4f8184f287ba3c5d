# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.validate reads the node, names what does not hold, and changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NvmlError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.capability import (
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine import status as asked
from ansible_collections.gpu.node.plugins.module_utils._generated.validate import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu, mig
from tests.fakes.packages.driver_fakes import FakeNvml

PLAIN, PARTED = gpu(0), gpu(1, mig=True)
PART = mig(PARTED, 0)


def nvml() -> FakeNvml:
    return FakeNvml(PLAIN, PARTED, migs=(PART,))


def capability(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> ValidateCapability:
    @contextlib.contextmanager
    def connect() -> Iterator[Any]:
        if isinstance(driver, NvmlError):
            raise driver
        yield driver

    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    asked = {"containers": False, "cuda": False, "wait_timeout": 0}
    return ValidateCapability(on, {**defaults, **asked, **params}, connect)


def answer(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the checks that do not hold, and the causes by name."""
    one = capability(on, driver, fail=False, **params)
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    told = one.result(state, plan)
    return told["failed_checks"], {check["name"]: check["cause"] for check in told["checks"]}


def test_a_daemon_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a genuine process that would sleep for an hour."""
    monkeypatch.setattr(asked, "PATIENCE", 0.2)
    slow = str(tmp_path / "slow")
    monkeypatch.setattr(Host, "which", lambda _self, name: slow if name == PROGRAM else None)
    (tmp_path / "slow").write_text("#!/bin/sh\nexec sleep 3600\n")
    (tmp_path / "slow").chmod(0o755)
    _failed, causes = answer(Host(), nvml(), gpu_count=2, components=["device_plugin"])
    assert "no answer within 0.2 s" in causes["device plugin"]
