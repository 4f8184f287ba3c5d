# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A handler comes beside the runtimes that are there; containerd 1 drops those that no file names."""

from __future__ import annotations

import pytest

from tests.fakes.library.runtime_host import CONFIG, OLD, RuntimeHost, capability, converge


@pytest.mark.parametrize("version", ["1.6.20", "1.7.24", "2.1.4"])
def test_runtime_by_default_stays_beside_the_handler(version: str) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd=version)
    host.install_toolkit()
    converge(host, mode="runtime_class")
    assert set(host.cri()["containerd"]["runtimes"]) == {"runc", "nvidia"}
    assert ("runtimes.runc]" in host.files[CONFIG]) is (version < "2")
    if version >= "1.7":
        converge(host, mode="cdi")
    converge(host, state="absent")
    assert host.own_files()[CONFIG] == "version = 2\n"


def test_no_runtime_is_invented_where_another_is_the_default() -> None:
    text = (
        f'version = 2\n[plugins."{OLD}".containerd]\ndefault_runtime_name = "crun"\n'
        f'[plugins."{OLD}".containerd.runtimes.crun]\nruntime_type = "io.containerd.runc.v2"\n'
    )
    host = RuntimeHost({CONFIG: text}, containerd="1.7.24")
    host.install_toolkit()
    converge(host, mode="runtime_class")
    assert set(host.cri()["containerd"]["runtimes"]) == {"crun", "nvidia"}


LEFT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"


@pytest.mark.parametrize("version", ["1.7.24", "2.1.4"])
def test_a_default_runtime_whose_program_is_gone_is_named(version: str) -> None:
    at = f'[plugins."{OLD}".containerd'
    text = (
        f'version = 2\n{at}]\ndefault_runtime_name = "nvidia"\n'
        f'{at}.runtimes.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
        f'{at}.runtimes.nvidia.options]\nBinaryName = "{LEFT}"\n'
    )
    host = RuntimeHost({CONFIG: text}, containerd=version)
    said = (
        f"containerd's default runtime nvidia names {LEFT}, which is not there: no container can be started."
        " Next step: make runc the default, or bring the program back"
    )
    assert said in capability(host).plan(capability(host).observe()).warnings
    host.files[LEFT] = "#!/bin/sh\n"
    assert said not in capability(host).plan(capability(host).observe()).warnings
