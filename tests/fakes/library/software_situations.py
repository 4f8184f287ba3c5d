# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Situations of nodes and options for the container toolkit and DCGM, and what runs tell in each of them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import State
from ansible_collections.gpu.node.plugins.module_utils._generated.container_toolkit import SPEC
from ansible_collections.gpu.node.plugins.module_utils._node.machine import recorded
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import (
    Records,
    Written,
)
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import capability as dcgm
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import (
    RUNTIME,
    ToolkitCapability,
)

from tests.fakes.library.dcgm_nodes import CORE, DCGM, EXPORTER, parameters
from tests.fakes.library.software_nodes import Shelf, Situation, SoftwareNode, told
from tests.fakes.packages.pgp_keys import EXAMPLE
from tests.support.paths import FAKES

RECORDED = FAKES / "library/recordings/software"
Happened = Callable[[SoftwareNode], None]
BASE, TOOLS = "nvidia-container-toolkit-base", "nvidia-container-toolkit"
TOOLKIT = (BASE, "libnvidia-container1", "libnvidia-container-tools", TOOLS)
UNSAFE, SAFE, NEWEST = "1.18.2-1", "1.19.1-1", "1.20.1-1"
DCGM_OLD, DCGM_NEW = "1:4.5.2-1", "1:4.6.0-1"
PARTS = ("core", "cuda12", "cuda13", "proprietary", "proprietary-cuda12", "proprietary-cuda13")
PROGRAM = {"location": "/srv/dcgm-exporter", "sha256": hashlib.sha256(b"program").hexdigest()}
PACKAGED = {"package": EXPORTER, "version": "4.8.1"}
REPOSITORY = {
    "url": "https://mirror/toolkit",
    "key": EXAMPLE,
    "key_fingerprints": [],
    "suite": "/",
    "components": [],
    "signed_metadata": False,
    "signed_packages": True,
    "plain_http": False,
}


def toolkit(node: SoftwareNode, values: Mapping[str, Any], *, check_mode: bool) -> Any:
    """Return the capability of the container toolkit."""
    defaults = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    return ToolkitCapability(node, {**defaults, **values}, check_mode=check_mode)  # type: ignore[arg-type]


def dcgms(node: SoftwareNode, values: Mapping[str, Any], *, check_mode: bool) -> Any:
    """Return the capability of DCGM."""
    return dcgm.DcgmCapability(node, parameters(**values), check_mode=check_mode)  # type: ignore[arg-type]


def _listed(*versions: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(TOOLKIT, versions)


def _dcgm(*versions: str) -> dict[str, tuple[str, ...]]:
    found = {f"{DCGM}-{part}": versions for part in PARTS}
    return {**found, EXPORTER: ("4.8.1-1",)}


def _later(coming: Mapping[str, tuple[str, ...]]) -> Happened:
    def happened(node: SoftwareNode) -> None:
        node.coming = dict(coming)
        node.note = "W: a mirror did not answer"

    return happened


def _brought(make: Callable[..., Any], *more: Happened, **values: Any) -> Happened:
    def happened(node: SoftwareNode) -> None:
        answer = told(node, make, values, check_mode=False)
        assert "error" not in answer, answer
        for one in more:
            one(node)

    return happened


def _put(*names: str, **values: Any) -> Happened:
    def happened(node: SoftwareNode) -> None:
        for name in names:
            node.put(name, **values)

    return happened


def _gone(name: str) -> Happened:
    return lambda node: node.there.pop(name) and None


def _set(**values: Any) -> Happened:
    def happened(node: SoftwareNode) -> None:
        for name, value in values.items():
            setattr(node, name, value)

    return happened


def _file(path: str, text: str) -> Happened:
    return lambda node: node.files.update({path: text})


def _all(*happened: Happened) -> Happened:
    def every(node: SoftwareNode) -> None:
        for one in happened:
            one(node)

    return every


def _masked(node: SoftwareNode) -> None:
    node.commands["systemctl", "show"] = "ActiveState=inactive\nUnitFileState=masked\nMainPID=0\n"


def _in_use(node: SoftwareNode) -> None:
    config = "/etc/containerd/config.toml"
    Records(node).put(config, Written("containerd", None, "", ()))  # type: ignore[arg-type]
    node.files[config] = f'BinaryName = "{RUNTIME}"\n'


BOTH, BOTH_DCGM = _listed(NEWEST, SAFE, UNSAFE), _dcgm(DCGM_NEW, DCGM_OLD)
SAFE_ONE, OLD_ONE = {"version": SAFE}, {"version": DCGM_OLD}
DRIVER = "/proc/driver/nvidia/version"
OLDER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.195.03  Release Build"
VENDOR = "nvidia-dcgm-exporter.service"
HALF = {"state": State.HALF_CONFIGURED}
TOOLKITS = {
    "lists not fetched": Situation({}, _later(BOTH)),
    "offered": Situation(BOTH),
    "not offered": Situation({}),
    "unsafe alone offered": Situation(_listed(UNSAFE)),
    "one package not offered": Situation({name: one for name, one in BOTH.items() if name != BASE}),
    "ours": Situation(BOTH, _brought(toolkit, **SAFE_ONE)),
    "ours, not offered any more": Situation(
        BOTH, _brought(toolkit, _set(offered={}, coming={}), **SAFE_ONE)
    ),
    "base alone ours": Situation(BOTH, _brought(toolkit, parts="base", **SAFE_ONE)),
    "not held": Situation(BOTH, _brought(toolkit, hold=False, **SAFE_ONE)),
    "with a repository": Situation(BOTH, _brought(toolkit, repository=REPOSITORY, **SAFE_ONE)),
    "another's": Situation(BOTH, _put(*TOOLKIT, version=UNSAFE)),
    "another's, base held": Situation(BOTH, _put(BASE, version=UNSAFE, held=True)),
    "one is gone": Situation(BOTH, _brought(toolkit, _gone(TOOLS), **SAFE_ONE)),
    "interrupted": Situation(BOTH, _set(interrupted=True)),
    "interrupted, lists not fetched": Situation({}, _all(_later(BOTH), _set(interrupted=True))),
    "half configured": Situation(BOTH, _brought(toolkit, _put(TOOLS, **HALF), **SAFE_ONE)),
    "a package would go": Situation(BOTH, _all(_put("rival", version="1"), _set(rival="rival"))),
    "of the vendor's service": Situation(BOTH, _file("/var/run/cdi/nvidia.yaml", "kind: x\n")),
    "one not held any more": Situation(BOTH, _brought(toolkit, _put(BASE, held=False), **SAFE_ONE)),
    "needed": Situation(BOTH, _brought(toolkit, _set(users={BASE: "monitor"}), **SAFE_ONE)),
    "in use": Situation(BOTH, _brought(toolkit, _in_use, **SAFE_ONE)),
    "record damaged": Situation(BOTH, _file("/var/lib/gpu-node/container_toolkit.json", "{")),
}
TOOLKIT_OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "version": {"version": "1.20.1"},
    "unknown version": {"version": "9.9.9"},
    "unsafe version": {"version": "1.18.2"},
    "base": {"parts": "base"},
    "no hold": {"hold": False},
    "version, no hold": {"version": "1.20.1", "hold": False},
    "vendor": {"vendor_refresh": True},
    "repository": {"repository": REPOSITORY},
    "absent": {"state": "absent"},
}
DCGMS = {
    "lists not fetched": Situation({}, _later(BOTH_DCGM)),
    "offered": Situation(BOTH_DCGM),
    "not offered": Situation({}),
    "one package not offered": Situation({CORE: (DCGM_NEW,)}),
    "ours": Situation(BOTH_DCGM, _brought(dcgms, **OLD_ONE)),
    "ours, not offered any more": Situation(
        BOTH_DCGM, _brought(dcgms, _set(offered={}, coming={}), **OLD_ONE)
    ),
    "core alone ours": Situation(
        BOTH_DCGM, _brought(dcgms, cuda="none", proprietary=False, **OLD_ONE)
    ),
    "not held": Situation(BOTH_DCGM, _brought(dcgms, hold=False, **OLD_ONE)),
    "program": Situation(BOTH_DCGM, _brought(dcgms, exporter=PROGRAM, **OLD_ONE)),
    "package": Situation(BOTH_DCGM, _brought(dcgms, exporter=PACKAGED, **OLD_ONE)),
    "another's": Situation(BOTH_DCGM, _put(CORE, version=DCGM_OLD)),
    "another's, held": Situation(BOTH_DCGM, _put(CORE, version="1:4.4.0-1", held=True)),
    "one is gone": Situation(BOTH_DCGM, _brought(dcgms, _gone(f"{DCGM}-cuda13"), **OLD_ONE)),
    "interrupted": Situation(BOTH_DCGM, _set(interrupted=True)),
    "interrupted, lists not fetched": Situation(
        {}, _all(_later(BOTH_DCGM), _set(interrupted=True))
    ),
    "half configured": Situation(BOTH_DCGM, _brought(dcgms, _put(CORE, **HALF), **OLD_ONE)),
    "DCGM 3": Situation(
        BOTH_DCGM,
        _all(_put(DCGM[:-2], version="3"), _set(rival=DCGM[:-2])),
    ),
    "stopped": Situation(BOTH_DCGM, _brought(dcgms, _set(units={}), **OLD_ONE)),
    "older driver": Situation(BOTH_DCGM, _brought(dcgms, _file(DRIVER, OLDER), **OLD_ONE)),
    "vendor's exporter runs": Situation(
        BOTH_DCGM,
        _all(_put(EXPORTER, version="4.8.1-1"), _set(units={VENDOR: ""})),
    ),
    "masked": Situation(BOTH_DCGM, _masked),
    "one not held any more": Situation(
        BOTH_DCGM, _brought(dcgms, _put(CORE, held=False), **OLD_ONE)
    ),
    "needed": Situation(BOTH_DCGM, _brought(dcgms, _set(users={CORE: "monitor"}), **OLD_ONE)),
    "record damaged": Situation(BOTH_DCGM, _file("/var/lib/gpu-node/dcgm.json", "{")),
}
DCGM_OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "version": {"version": "4.6.0"},
    "unknown version": {"version": "9.9.9"},
    "cuda 12": {"cuda": "12"},
    "core": {"cuda": "none", "proprietary": False},
    "no hold": {"hold": False},
    "version, no hold": {"version": "4.6.0", "hold": False},
    "program": {"exporter": PROGRAM},
    "package": {"exporter": PACKAGED},
    "absent": {"state": "absent"},
}
MODULES = {
    "container_toolkit": (toolkit, TOOLKITS, TOOLKIT_OPTIONS),
    "dcgm": (dcgms, DCGMS, DCGM_OPTIONS),
}


# The options whose answers are written down; the others only ask for more of the same.
KEPT = ("", "version, no hold", "repository", "package", "absent")


def play(patch: pytest.MonkeyPatch) -> None:
    """Let package managers be played, the exporter's program come from nowhere, and nobody wait."""

    def bring(_location: str, target: str, _sha256: str, *, mode: int) -> None:
        SoftwareNode.last.write(target, "program", mode=mode)

    patch.setattr(dcgm, "bring", bring)
    patch.setattr(recorded, "FAMILIES", dict.fromkeys(recorded.FAMILIES, Shelf))
    patch.setattr("time.sleep", lambda _seconds: None)


def runs(
    module: str, system: str, kept: Collection[str] = KEPT
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the answers of runs on a system, each after its situation, its options, and whether it is a check."""
    make, situations, options = MODULES[module]
    every = itertools.product(situations.items(), options.items(), ("check", ""))
    for (situation, found), (wanted, values), check in every:
        if wanted in kept:
            words = " | ".join(filter(None, (situation, wanted, check)))
            yield words, told(found.node(system), make, values, check_mode=bool(check))


def shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is written down of an answer: what users read of it, and a digest of all of it."""
    digest = hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:16]
    found = {key: answer[key] for key in ("steps", "error", "warnings") if key in answer}
    return {**found, "all": digest}


def main() -> None:
    """Write down all of them."""
    with pytest.MonkeyPatch.context() as patch:
        play(patch)
        for module in MODULES:
            found = {words: shown(answer) for words, answer in runs(module, "debian")}
            (RECORDED / f"{module}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
