# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""k0s and MicroK8s with genuine containerd 1.7 and 2: what their wrappers make of our settings is in effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime import containerd
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml

from tests.fakes.runtime.genuine_runtimes import WRAPPER, GenuineRuntimes, converge, with_cdi

Make = Callable[..., GenuineRuntimes]
SECTIONS = {"trixie": (2, containerd.CRI_SECTION[2]), "forky": (3, containerd.CRI)}
SHOWN = "LoadState=loaded\nActiveState=active\n"


def runc(suite: str) -> str:
    """Return a CRI section as k0s and MicroK8s have it: runc, with options of its own."""
    version, section = SECTIONS[suite]
    at = f"plugins.'{section}'.containerd"
    return (
        f'version = {version}\n[{at}]\ndefault_runtime_name = "runc"\n[{at}.runtimes.runc]\n'
        f'runtime_type = "io.containerd.runc.v2"\n[{at}.runtimes.runc.options]\nSystemdCgroup = true\n'
    )


@with_cdi
@pytest.mark.parametrize("mode", ["cdi", "runtime_class", "default_runtime"])
def test_settings_are_in_effect_once_k0s_has_merged_them(
    machine: Make, suite: str, mode: str
) -> None:
    kind, merged = containerd.K0S, containerd.K0S_MERGED
    version = SECTIONS[suite][0]
    main = f'# k0s_managed=true\nversion = {version}\nimports = ["{merged}"]\n'
    node = machine(suite, {kind.config_path: main, merged: runc(suite)})
    node.programs[kind.program] = node.programs.pop("containerd")
    node.answers["systemctl"] = SHOWN
    node.install_toolkit()
    before = node.files()
    converge(node, name="k0s", mode=mode)
    assert converge(node, name="k0s", mode=mode) == []
    assert node.files()[kind.config_path] == main
    if mode == "cdi" and suite == "forky":
        assert node.files() == before  # CDI is on by itself
        return
    # As k0s does at its next start.
    own = toml.parse(node.files()[containerd.K0S_DROP_IN], containerd.K0S_DROP_IN)
    assert own["version"] == version
    node.put(merged, toml.edit(runc(suite), list(containerd.leaves(own))))
    node.programs["containerd"] = node.programs[kind.program]
    section = node.cri(kind.config_path)
    assert section["enable_cdi"] is True
    assert section["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    if mode != "cdi":
        options = section["containerd"]["runtimes"]["nvidia"]["options"]
        assert (options["BinaryName"], options["SystemdCgroup"]) == (WRAPPER, True)
    assert (section["containerd"]["default_runtime_name"] == "nvidia") == (
        mode == "default_runtime"
    )
    assert converge(node, name="k0s", mode=mode) == []
    node.put(merged, runc(suite))
    del node.programs["containerd"]
    converge(node, name="k0s", state="absent")
    assert node.files() == before


@with_cdi
def test_the_template_of_microk8s_takes_settings_and_gives_them_back(
    machine: Make, suite: str
) -> None:
    kind = containerd.MICROK8S
    text = runc(suite).replace('"runc"', '"${RUNTIME}"')
    node = machine(suite, {kind.config_path: text})
    node.programs[kind.program] = node.programs.pop("containerd")
    node.answers["systemctl"] = SHOWN
    node.install_toolkit()
    before = node.files()
    converge(node, name="microk8s", mode="runtime_class")
    assert converge(node, name="microk8s", mode="runtime_class") == []
    assert '"${RUNTIME}"' in node.files()[kind.config_path]
    converge(node, name="microk8s", state="absent")
    assert node.files() == before
