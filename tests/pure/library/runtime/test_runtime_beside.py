# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A handler comes beside the runtimes that are there; containerd 1 drops those that no file names."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.runtime_host import CONFIG, OLD, RuntimeHost, capability, converge, planned


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


@pytest.mark.parametrize(
    ("versions", "trial", "params"),
    [
        ({"containerd": "1.7.24"}, ("containerd", "--config"), {}),
        ({"docker": "27.5.1"}, ("dockerd", "--validate"), {"name": "docker"}),
        (
            {"crio": "1.33.0"},
            ("crio", "--config-dir"),
            {"name": "cri-o", "mode": "runtime_class"},
        ),
    ],
)
def test_two_plans_at_a_time_do_not_take_each_others_trial_files(
    versions: dict[str, str], trial: tuple[str, str], params: dict[str, str]
) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"} if "containerd" in versions else {}, **versions)
    host.install_toolkit()
    before, answer = host.own_files(), host.commands[trial]
    expected = planned(host, **params).steps
    assert callable(answer)
    beside: list[tuple[Step, ...]] = []

    def answer_late(argv: tuple[str, ...]) -> Completed:
        """Make a whole other plan before the runtime reads the files of this one."""
        if "trial" in " ".join(argv) and not beside:
            beside.append(())
            beside[0] = planned(host, **params).steps
        return answer(argv)

    host.commands[trial] = answer_late
    assert planned(host, **params).steps == expected
    assert beside == [expected]
    assert host.own_files() == before
    assert not [path for path in host.files if "trial" in path]
