# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A handler comes beside the runtimes that are there; containerd 1 drops those that no file names."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import FAILED
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes
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
        " Next step: make another one the default, or bring the program back"
    )
    assert said in capability(host).plan(capability(host).observe()).warnings
    host.files[LEFT] = "#!/bin/sh\n"
    assert said not in capability(host).plan(capability(host).observe()).warnings


PROGRAM = "/usr/bin/nvidia-container-runtime"
BOOT = (
    '{"path": "/etc/cdi/a.yaml", "hooks": "auto", "library_folders": [], "driver_root": "/", '
    '"generator": "nvml"}'
)
DEFAULTS = {
    "containerd": (
        CONFIG,
        f'version = 2\n[plugins."{OLD}".containerd]\ndefault_runtime_name = "nvidia"\n'
        f'[plugins."{OLD}".containerd.runtimes.nvidia.options]\nBinaryName = "{PROGRAM}"\n',
        "1.7.24",
    ),
    "docker": (
        "/etc/docker/daemon.json",
        f'{{"default-runtime": "nvidia", "runtimes": {{"nvidia": {{"path": "{PROGRAM}"}}}}}}',
        "26.1.5",
    ),
    "cri-o": (
        "/etc/crio/crio.conf.d/20-site.conf",
        '[crio.runtime]\ndefault_runtime = "nvidia"\n'
        f'[crio.runtime.runtimes.nvidia]\nruntime_path = "{PROGRAM}"\n',
        "1.36.0",
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_runtime_whose_program_was_removed_is_named_and_not_ready(name: str) -> None:
    path, text, version = DEFAULTS[name]
    host = RuntimeHost({path: text, boot.CONFIG: BOOT}, **{name.replace("-", ""): version})
    said = f"{name}'s default runtime nvidia names {PROGRAM}, which is not there: no container"
    plan = capability(host, name=name).plan(capability(host, name=name).observe())
    assert [one for one in plan.warnings if one.startswith(said)]
    found = runtimes.look(host, runtimes.there(host))  # type: ignore[arg-type]
    assert found[name].state == FAILED
    assert found[name].cause.startswith(said)
    host.files[PROGRAM] = "#!/bin/sh\n"
    plan = capability(host, name=name).plan(capability(host, name=name).observe())
    assert not [one for one in plan.warnings if one.startswith(said)]


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


@pytest.mark.parametrize(
    "versions", [{"containerd": "1.7.24"}, {"docker": "27.5.1"}, {"crio": "1.36.0"}]
)
def test_run_that_takes_the_default_back_does_not_warn_of_it(versions: dict[str, str]) -> None:
    name = {"crio": "cri-o"}.get(next(iter(versions)), next(iter(versions)))
    host = RuntimeHost({CONFIG: "version = 2\n"} if name == "containerd" else {}, **versions)
    host.install_toolkit()
    converge(host, name=name, mode="default_runtime")
    said = "nvidia is the default runtime"
    found = planned(host, name=name, mode="runtime_class")
    assert "default_runtime" in str(found.steps).replace("-", "_")
    assert not [one for one in found.warnings if said in one]
    converge(host, name=name, mode="runtime_class")
    assert not [
        one for one in planned(host, name=name, mode="runtime_class").warnings if said in one
    ]
