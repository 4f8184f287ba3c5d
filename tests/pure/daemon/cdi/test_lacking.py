# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A specification whose files are gone makes no container, so its devices are nobody's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.advertise.decide import decide
from gpu_plugin.cdi.files import CdiFile, content
from gpu_plugin.cdi.specification import needed
from gpu_plugin.config.configuration import parse
from gpu_plugin.model.inventory import HostState, Kind

from tests.fakes.daemon.gpu_builders import inventory, view

LIBRARY, HOOK, OWN = "/usr/lib/libcuda.so.550", "/usr/bin/nvidia-cdi-hook", "/usr/lib/libown.so.1"
NODE = inventory(view(0), view(1))
CDI = parse("flags: {plugin: {deviceListStrategy: [cdi-cri]}}")


def specification(**own: Any) -> dict[str, Any]:
    mounts = [{"hostPath": one} for one in (LIBRARY, "/run/socket", "/etc/some.conf")]
    edits = {"mounts": mounts, "hooks": [{"path": HOOK}]}
    devices = [{"name": "GPU-0", "containerEdits": own}, {"name": "GPU-1"}]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": edits,
        "devices": devices,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with all that the specification names."""
    for name in (LIBRARY, HOOK, OWN, "/etc/cdi/nvidia.json"):
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    text = json.dumps(specification(mounts=[{"hostPath": OWN}]))
    (tmp_path / "etc/cdi/nvidia.json").write_text(text)
    (tmp_path / "var/run/cdi").mkdir(parents=True)
    return tmp_path


def lacking(root: Path) -> dict[str, str]:
    found = CdiFile(root)
    found.refresh()
    return found.lacking()


@pytest.mark.parametrize(
    ("gone", "whose"),
    [
        (LIBRARY, {"GPU-0": LIBRARY, "GPU-1": LIBRARY}),
        (HOOK, {"GPU-0": HOOK, "GPU-1": HOOK}),
        (OWN, {"GPU-0": OWN}),
    ],
)
def test_a_device_lacks_what_is_not_on_the_host(
    root: Path, gone: str, whose: dict[str, str]
) -> None:
    assert lacking(root) == {}
    (root / gone.lstrip("/")).unlink()
    assert lacking(root) == whose


def test_it_is_looked_at_again_while_the_specification_stays(root: Path) -> None:
    found = CdiFile(root)
    for there in (True, False, True):
        found.refresh()
        assert (found.lacking() == {}) is there
        if there:
            (root / HOOK.lstrip("/")).unlink(missing_ok=True)
        else:
            (root / HOOK.lstrip("/")).touch()


def test_what_is_out_of_a_pods_sight_may_be_there(root: Path) -> None:
    for name in (HOOK, LIBRARY, OWN):
        (root / name.lstrip("/")).unlink()
    for folder in ("bin", "lib"):
        (root / "usr" / folder).rmdir()
    assert lacking(root) == {}


def test_nobody_gets_a_device_with_which_no_container_starts() -> None:
    host = HostState(cdi_devices=frozenset(["GPU-0", "GPU-1"]), cdi_lacking={"GPU-1": HOOK})
    (devices,) = decide(NODE, {}, CDI, host=host).resources.values()
    well, bad = devices
    assert well.problem is None
    assert bad.problem is not None
    assert bad.problem.kind is Kind.NO_CDI
    assert f"names {HOOK}, which is not there" in str(bad.problem)
    by_variable = parse("")
    assert all(
        one.problem is None
        for those in decide(NODE, {}, by_variable, host=host).resources.values()
        for one in those
    )


@pytest.mark.parametrize("edits", [None, [], {"mounts": 3}, {"hooks": [3, {}, {"path": 3}]}])
def test_what_is_no_edit_needs_nothing(edits: object) -> None:
    spec = {"devices": [{"name": "GPU-0", "containerEdits": edits}], "containerEdits": edits}
    assert needed(spec) == {"": set(), "GPU-0": set()}


def test_the_status_names_all_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "nvidia.json"
    hook, library = tmp_path / "hook", tmp_path / "libcuda.so.550"
    text = json.dumps(specification()).replace(HOOK, str(hook)).replace(LIBRARY, str(library))
    path.write_text(text)
    library.touch()
    assert content(path) == {"devices": ["GPU-0", "GPU-1"], "missing": [str(hook)]}
    path.write_text("{")
    assert content(path) == {"devices": [], "missing": []}


def test_a_name_that_is_no_text_breaks_no_look_at_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "nvidia.yaml"
    path.write_text("kind: nvdia.com/gpu\ndevices: [{name: {a: b}}]\n")
    assert content(path) == {"devices": ["{'a': 'b'}"], "missing": []}
