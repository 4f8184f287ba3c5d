# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a container is made of, from a Python and a CDI specification."""

from __future__ import annotations

import posixpath
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import (
    HOST,
    Device,
    Python,
    config,
    edits,
    nodes,
    python,
)
from hypothesis import given
from hypothesis import strategies as st

MAPS = """55d0-55d1 r--p 00000000 08:01 131 /usr/bin/python3.13
7f00-7f01 r--p 00000000 08:01 132 /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 r--p 00000000 08:01 133 /usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.550.1
7f04-7f05 r--p 00000000 08:01 134 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
7f06-7f07 r--p 00000000 08:01 135 /opt/other lib/libffi.so.8
7fff-7fff rw-p 00000000 00:00 0 [stack]
7fff-7fff rw-p 00000000 00:00 0
"""
LOADER = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"


def test_a_python_is_known_by_what_is_mapped_of_it() -> None:
    found = python("/usr/bin/python3.13", "/usr", MAPS)
    assert found == Python(
        "/usr/bin/python3.13", "/usr", LOADER, ("/opt/other lib", "/usr/lib/x86_64-linux-gnu")
    )
    assert found.folders == ["/opt/other lib", "/usr"]
    assert found.environment == {"PYTHONHOME": "/host/usr"}
    command = found.command("print()", "GPU-1")
    assert command[0] == HOST + LOADER
    assert command[-3:] == ["-c", "print()", "GPU-1"]
    # What the specification mounts comes before what the machine has.
    places = command[2].split(":")
    assert places.index("/usr/lib/x86_64-linux-gnu") < places.index(
        "/host/usr/lib/x86_64-linux-gnu"
    )


def test_a_python_without_glibc_is_left_out() -> None:
    assert python("/usr/bin/python3", "/usr", MAPS.replace("ld-linux", "ld-musl")) is None
    assert python("/usr/bin/python3", "/usr", "") is None


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
    lambda one: "/" + "/".join(one)
)


@given(PATHS, PATHS, PATHS, st.lists(PATHS, max_size=4))
def test_folders_have_all_of_it_and_none_is_within_another(
    program: str, prefix: str, loader: str, libraries: list[str]
) -> None:
    folders = Python(program, prefix, loader, tuple(libraries)).folders
    for one in (prefix, posixpath.dirname(program), posixpath.dirname(loader), *libraries):
        assert sum(f"{one}/".startswith(f"{folder.rstrip('/')}/") for folder in folders) == 1


def spec(devices: t.Any) -> dict[str, t.Any]:
    return {"devices": devices, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]}}


def test_all_devices_are_those_of_the_name_all() -> None:
    given_to_all = {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/run/dev/nvidia0"}]}
    one = {"name": "all", "containerEdits": given_to_all}
    found = edits(spec([{"name": "0", "containerEdits": {}}, one]))
    assert nodes(found) == {"/dev/nvidiactl": "/dev/nvidiactl", "/dev/nvidia0": "/run/dev/nvidia0"}
    with pytest.raises(ValueError, match="no device named all"):
        edits(spec([{"name": "0", "containerEdits": {}}]))


def test_a_container_may_use_its_own_devices_alone() -> None:
    one = Python("/usr/bin/python3", "/usr", LOADER, ("/usr/lib",))
    made = config(
        "/root", ["true"], one, [{"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}], {}
    )
    assert made["linux"]["resources"]["devices"] == [{"allow": False, "access": "rwm"}]
    assert made["mounts"][-1] == {
        "source": "/a",
        "destination": "/b",
        "type": "bind",
        "options": ["ro", "rbind"],
    }
    both = config("/root", ["true"], one, [{}], {"/dev/nvidia0": Device(195, 0)})
    assert both["linux"]["resources"]["devices"][1:] == [
        {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rwm"}
    ]
    assert "/host/usr" in [mount["destination"] for mount in both["mounts"]]
