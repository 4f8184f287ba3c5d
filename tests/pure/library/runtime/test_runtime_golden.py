# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Configurations in the manner of well-known installers: edited, edited again, and taken back."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from tests.fakes.library.runtime_host import CONFIG, DAEMON, RuntimeHost, capability, converge
from tests.support.paths import FAKES

FILES = FAKES / "runtime_configs"
MODES = ["cdi", "runtime_class", "default_runtime"]
TOML = [
    ("kubespray.toml", "1.7.24"),
    ("kubespray.toml", "2.1.4"),
    ("kubespray-v3.toml", "2.1.4"),
    ("kubespray-v4.toml", "2.3.0"),
    ("ubuntu.toml", "1.7.24"),
    ("eks.toml", "1.7.24"),
    ("eks.toml", "2.1.4"),
    ("package.toml", "1.7.24"),
    ("package.toml", "2.1.4"),
    ("rke2.toml", "1.7.24"),
    ("rke2-v3.toml", "2.1.4"),
    ("k3s.toml", "2.0.5"),
    ("mirrors.toml", "2.3.0"),
]
JSON = sorted(path.name for path in FILES.glob("*.json"))


def leaves(value: Any, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return all values of nested tables by their paths."""
    if not isinstance(value, dict) or not value:
        return {at: value}
    return {path: one for key in value for path, one in leaves(value[key], (*at, key)).items()}


def machine(name: str, version: str) -> tuple[RuntimeHost, str, str, str]:
    """Return a machine with a file, the file's path and text, and whose it is."""
    text = (FILES / name).read_bytes().decode()
    if name.endswith(".json"):
        host, path, runtime = RuntimeHost({DAEMON: text}, docker=version), DAEMON, "docker"
    else:
        host, path, runtime = RuntimeHost({CONFIG: text}, containerd=version), CONFIG, "containerd"
    host.install_toolkit()
    return host, path, text, runtime


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "version"), [*TOML, *((name, "26.1.5") for name in JSON)])
def test_edit_keeps_all_and_is_taken_back_byte_for_byte(name: str, version: str, mode: str) -> None:
    host, path, text, runtime = machine(name, version)
    before = host.own_files()
    steps = converge(host, name=runtime, mode=mode)
    by_default = runtime == "containerd" and version >= "2" and mode == "cdi"
    assert len(steps) == (0 if by_default else 1)
    parse: Any = json.loads if runtime == "docker" else tomllib.loads
    old, new = leaves(parse(text)), leaves(parse(host.files[path]))
    ours = {"enable_cdi", "default_runtime_name", "default-runtime"}
    changed = {at for at, value in old.items() if new.get(at) != value and value != {}}
    assert {at[-1] for at in changed} <= ours
    comments = [line for line in text.splitlines() if "#" in line]
    assert [line for line in comments if line not in host.files[path].splitlines()] == []
    again = capability(host, name=runtime, mode=mode)
    assert again.plan(again.observe()).steps == ()
    converge(host, name=runtime, state="absent")
    assert host.own_files() == before


@pytest.mark.parametrize(("name", "version"), [*TOML, *((name, "26.1.5") for name in JSON)])
def test_line_of_others_stays_when_ours_go(name: str, version: str) -> None:
    host, path, text, runtime = machine(name, version)
    converge(host, name=runtime, mode="default_runtime")
    if runtime == "docker":
        after = {**json.loads(host.files[path]), "debug": True}
        host.files[path] = json.dumps(after)
        expected = {**json.loads(text), "debug": True}
    else:
        host.files[path] = "# theirs\n" + host.files[path] + "\n[cgroup]\npath = '/x'\n"
        expected = {**tomllib.loads(text), "cgroup": {"path": "/x"}}
    converge(host, name=runtime, state="absent")
    parse: Any = json.loads if runtime == "docker" else tomllib.loads
    assert parse(host.files[path]) == expected
    if runtime != "docker":
        assert host.files[path].startswith("# theirs\n")


@pytest.mark.parametrize(("name", "version"), [("rke2.toml", "1.7.24"), ("ubuntu.toml", "1.7.24")])
def test_diff_has_the_lines_that_change_and_no_credential(name: str, version: str) -> None:
    host, path, text, _runtime = machine(name, version)
    login = '    [plugins."io.containerd.grpc.v1.cri".registry.headers]\n      X = "https://ci:S3cret@r"\n'
    host.files[path] = text + "\n" + login.replace("    ", "")
    one = capability(host, mode="runtime_class")
    plan = one.plan(one.observe())
    before, after = str(plan.before), str(plan.after)
    assert "nvidia" in after
    assert len(after.splitlines()) < 40
    for secret in ("s3cret", "S3cret"):
        assert secret not in before + after
    assert text.splitlines()[1] not in before + after


@pytest.mark.parametrize("mode", MODES)
def test_file_that_the_package_does_not_bring_is_made_and_goes_again(mode: str) -> None:
    host = RuntimeHost({}, docker="26.1.5")
    host.install_toolkit()
    before = host.own_files()
    assert len(converge(host, name="docker", mode=mode)) == 1
    assert json.loads(host.files[DAEMON])["features"] == {"cdi": True}
    assert converge(host, name="docker", mode=mode) == []
    converge(host, name="docker", state="absent")
    assert host.own_files() == before


@pytest.mark.parametrize(("name", "version"), TOML)
def test_handler_keeps_the_cgroup_driver_of_runc(name: str, version: str) -> None:
    host = machine(name, version)[0]
    runc = host.cri()["containerd"]["runtimes"]["runc"].get("options", {})
    converge(host, mode="runtime_class")
    options = host.cri()["containerd"]["runtimes"]["nvidia"]["options"]
    assert options.get("SystemdCgroup") == runc.get("SystemdCgroup")
