# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rules of a CDI specification."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi.rules import (
    VERSIONS,
    minimum_version,
    problems,
)

NODE = {"path": "/dev/nvidia0"}
PLAIN: dict[str, Any] = {
    "cdiVersion": "0.3.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "gpu0", "containerEdits": {"deviceNodes": [NODE]}}],
}
FULL: dict[str, Any] = {
    "cdiVersion": "0.8.0",
    "kind": "nvidia.com/gpu.large",
    "annotations": {"a": "b"},
    "devices": [{"name": "0:1", "annotations": {}, "containerEdits": {"env": ["A="]}}],
    "containerEdits": {
        "env": ["A=b"],
        "deviceNodes": [
            {
                "path": "/dev/a",
                "hostPath": "/dev/b",
                "type": "c",
                "major": 195,
                "minor": 0,
                "fileMode": 438,
                "permissions": "rw",
                "uid": 0,
                "gid": 0,
            }
        ],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"], "type": "bind"}],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/bin/x",
                "args": ["x"],
                "env": ["A=b"],
                "timeout": 1,
            }
        ],
        "intelRdt": {"closID": "x", "enableCMT": True},
        "additionalGids": [5],
    },
}


def changed(spec: dict[str, Any], at: str, value: Any) -> dict[str, Any]:
    """Return a copy with a value set at a path such as devices/0/name; ... removes it."""
    result: Any = copy.deepcopy(spec)
    *folders, last = [int(key) if key.isdigit() else key for key in at.split("/")]
    place = result
    for key in folders:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return dict(result)


@pytest.mark.parametrize("spec", [PLAIN, FULL])
def test_good_ones_have_no_problems(spec: dict[str, Any]) -> None:
    assert problems(spec) == []


@pytest.mark.parametrize("spec", [None, [], "text", 1])
def test_what_is_no_object(spec: Any) -> None:
    assert problems(spec) == ["the specification: expected an object"]


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        ("extra", 1, "extra: there is no such key"),
        ("cdiVersion", ..., "cdiVersion: is missing"),
        ("cdiVersion", "2.0.0", "cdiVersion: '2.0.0' is not one of"),
        ("cdiVersion", 3, "cdiVersion: 3 is not a text"),
        ("cdiVersion", "0.6.0", "cdiVersion: the content needs 0.7.0, not 0.6.0"),
        ("kind", "", "kind: '' is not a text"),
        ("kind", "gpu", "kind: 'gpu' is not vendor/class"),
        ("kind", "1nvidia.com/gpu", "is not vendor/class"),
        ("kind", "nvidia.com/gpu-", "is not vendor/class"),
        ("kind", "nvidia.com/a/b", "is not vendor/class"),
        ("annotations", {"a": 1}, "annotations: {'a': 1} is not a map"),
        ("devices", [], "devices: there must be one at least"),
        ("devices", {}, "devices: expected a list"),
        ("devices", ..., "devices: is missing"),
        ("devices/0", "x", "devices[0]: expected an object"),
        ("devices/0/name", "-a", "devices[0].name: '-a' is not a device name"),
        ("devices/0/name", "a:", "is not a device name"),
        ("devices/0/name", "a/b", "is not a device name"),
        ("devices/0/name", "a\n", "is not a device name"),
        ("devices/0/containerEdits", ..., "devices[0].containerEdits: is missing"),
        ("devices/0/containerEdits", {}, "devices[0].containerEdits: must not be empty"),
        ("devices/0/containerEdits", {"env": []}, "must not be empty"),
        ("devices/0/containerEdits/env", ["=x"], "containerEdits.env[0]: '=x' is not name=value"),
        ("devices/0/containerEdits/env", ["A"], "is not name=value"),
        ("containerEdits/env", "A=b", "containerEdits.env: expected a list"),
        ("containerEdits/deviceNodes/0/path", ..., "deviceNodes[0].path: is missing"),
        ("containerEdits/deviceNodes/0/type", "x", "type: 'x' is not one of b, c, u, p"),
        ("containerEdits/deviceNodes/0/major", -1, "major: -1 is not a number"),
        ("containerEdits/deviceNodes/0/major", True, "major: True is not a number"),
        ("containerEdits/deviceNodes/0/permissions", "x", "'x' is not made of r, w and m"),
        ("containerEdits/mounts/0/hostPath", "", "mounts[0].hostPath: '' is not a text"),
        ("containerEdits/mounts/0/containerPath", ..., "mounts[0].containerPath: is missing"),
        ("containerEdits/mounts/0/readonly", True, "mounts[0].readonly: there is no such key"),
        ("containerEdits/hooks/0/hookName", "late", "hooks[0].hookName: 'late' is not one of"),
        ("containerEdits/hooks/0/path", ..., "hooks[0].path: is missing"),
        ("containerEdits/hooks/0/env", ["x"], "hooks[0].env[0]: 'x' is not name=value"),
        ("containerEdits/intelRdt/enableCMT", 1, "enableCMT: 1 is not a flag"),
    ],
)
def test_each_rule_names_the_place(at: str, value: Any, problem: str) -> None:
    found = problems(changed(FULL, at, value))
    assert len(found) == 1
    assert problem in found[0]


def test_a_name_that_is_there_twice() -> None:
    spec = changed(PLAIN, "devices", PLAIN["devices"] * 2)
    assert problems(spec) == ["devices[1].name: 'gpu0' is there twice"]


@pytest.mark.parametrize(
    ("at", "value", "version"),
    [
        ("kind", "nvidia.com/gpu", "0.3.0"),
        ("containerEdits", {"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}, "0.3.0"),
        (
            "containerEdits",
            {"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]},
            "0.4.0",
        ),
        ("devices/0/name", "0", "0.5.0"),
        ("devices/0/containerEdits/deviceNodes/0/hostPath", "/x", "0.5.0"),
        ("containerEdits", {"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}, "0.5.0"),
        ("annotations", {"a": "b"}, "0.6.0"),
        ("annotations", {}, "0.3.0"),
        ("devices/0/annotations", {"a": "b"}, "0.6.0"),
        ("kind", "nvidia.com/gpu.x", "0.6.0"),
        ("devices/0/containerEdits/additionalGids", [1], "0.7.0"),
        ("containerEdits", {"intelRdt": {"closID": "a"}}, "0.7.0"),
    ],
)
def test_the_lowest_version_is_the_lowest_that_is_accepted(
    at: str, value: Any, version: str
) -> None:
    spec = changed(PLAIN, at, value)
    assert minimum_version(spec) == version
    accepted = [one for one in VERSIONS if not problems({**spec, "cdiVersion": one})]
    assert accepted == list(VERSIONS[VERSIONS.index(version) :])
