# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""containerd's file is edited, checked by containerd, and never replaced by something worse."""

from __future__ import annotations

import json
import time
import tomllib
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from ansible_collections.gpu.node.plugins.module_utils._module.container_runtime import (
    RECORD,
    RuntimeCapability,
)
from fakes import FakeHost

CONFIG = "/etc/containerd/config.toml"
TEXT = """\
version = 2

# ours, do not touch
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "pause:3.10"  # mirrored
"""
DIRS = ["/etc/cdi", "/var/run/cdi"]
DEFAULTS = f"cdi_spec_dirs = {json.dumps(DIRS)}\n"


class Containerd(FakeHost):
    """A containerd whose effective configuration is its file, its defaults and one import."""

    def __init__(self, text: str | None, *, imported: str = "", active_since: float = 1.0) -> None:
        super().__init__({CONFIG: text} if text is not None else {})
        self.imported = imported
        since = int(active_since * 1e6)
        self.commands = {
            ("containerd", "--version"): "containerd containerd.io 1.7.24 abc",
            ("containerd", "--config"): self._dump,
            ("containerd", "config", "dump"): self._dump,
            ("systemctl", "show"): f"ActiveState=active\nActiveEnterTimestampMonotonic={since}\n",
        }

    def _dump(self, words: tuple[str, ...]) -> Completed:
        text = self.files[words[2]] if words[1] == "--config" else ""
        data = tomllib.loads(text)
        cri = data.setdefault("plugins", {}).setdefault("io.containerd.grpc.v1.cri", {})
        if "broken" in cri:
            return Completed(1, "", "containerd: unknown key broken")
        cri.setdefault("cdi_spec_dirs", DIRS)
        cri.setdefault("enable_cdi", False)
        lines = ["version = 2", '[plugins."io.containerd.grpc.v1.cri"]']
        values = {**cri, **tomllib.loads(self.imported)}
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return Completed(0, "\n".join(lines) + "\n", "")


def capability(host: FakeHost, **params: Any) -> RuntimeCapability:
    values = {"config_path": CONFIG, "spec_dirs": DIRS, "backup": False, **params}
    return RuntimeCapability(host, values)


def converge(host: FakeHost, **params: Any) -> RuntimeCapability:
    one = capability(host, **params)
    for step in one.plan(one.observe()).steps:
        one.apply(step)
    return one


def test_edit_keeps_everything_and_is_the_announced_one() -> None:
    host = Containerd(TEXT)
    one = capability(host)
    plan = one.plan(one.observe())
    assert [step.summary for step in plan.steps] == [f"set enable_cdi = true in {CONFIG}"]
    assert plan.restart_required == ("containerd.service",)
    one.apply(plan.steps[0])
    assert (plan.before, plan.after) == (TEXT, host.files[CONFIG])
    assert [line for line in TEXT.splitlines() if line not in host.files[CONFIG]] == []
    assert sorted(host.files) == sorted([CONFIG, RECORD])


def test_second_run_changes_nothing_and_a_restart_that_was_missed_is_asked_for_again() -> None:
    host = Containerd(TEXT)
    converge(host)
    one = capability(host)
    plan = one.plan(one.observe())
    assert plan.steps == ()
    assert plan.restart_required == ("containerd.service",)
    since = int((time.monotonic() + 60) * 1e6)
    host.commands["systemctl", "show"] = (
        f"ActiveState=active\nActiveEnterTimestampMonotonic={since}\n"
    )
    assert one.plan(one.observe()).restart_required == ()


def test_missing_file_is_made_with_its_format() -> None:
    host = Containerd(None)
    converge(host)
    assert tomllib.loads(host.files[CONFIG]) == {
        "version": 2,
        "plugins": {"io.containerd.grpc.v1.cri": {"enable_cdi": True}},
    }


def test_backup_on_demand() -> None:
    host = Containerd(TEXT)
    one = converge(host, backup=True)
    saved = one.result(one.observe(), one.plan(one.observe()))["backup_file"]
    assert host.files[saved] == TEXT


@pytest.mark.parametrize("text", ["version = = 2\n", "[plugins\n"])
def test_damaged_file_is_left_as_it_is(text: str) -> None:
    host = Containerd(text)
    with pytest.raises(NodeError, match=rf"{CONFIG} is not valid TOML.*line 1"):
        capability(host).observe()
    assert host.files == {CONFIG: text}


def test_result_that_containerd_refuses_never_reaches_the_file() -> None:
    host = Containerd(TEXT)
    one = capability(host)
    step = one.plan(one.observe()).steps[0]
    host.commands["containerd", "--config"] = Completed(1, "", "containerd: no")
    with pytest.raises(NodeError, match="containerd: no"):
        one.apply(step)
    assert host.files == {CONFIG: TEXT}


def test_import_that_says_otherwise_is_named() -> None:
    with pytest.raises(NodeError, match=r"a file that .* imports sets it otherwise"):
        converge(Containerd(TEXT, imported="enable_cdi = false\n"))


def test_disabled_cri_is_a_warning() -> None:
    one = capability(Containerd('version = 2\ndisabled_plugins = ["cri"]\n'))
    assert "disables the CRI plugin" in one.plan(one.observe()).warnings[0]


def test_no_containerd() -> None:
    with pytest.raises(NodeError, match="containerd is not installed"):
        capability(FakeHost()).observe()
