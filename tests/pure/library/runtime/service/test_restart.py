# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A restart that ends containers waits, unless it was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.library.runtime_host import CONFIG, DAEMON, RuntimeHost, capability

SOCKET = "/var/run/docker.sock"
CONTAINERS = [{"Names": ["/train"], "Id": "a" * 64}, {"Names": [], "Id": "b" * 64}]


def docker(live: Any = False, containers: Any = None, text: str = "{}") -> RuntimeHost:
    host = RuntimeHost({DAEMON: text}, docker="26.1.5")
    host.answers = {
        (SOCKET, "/info"): {"LiveRestoreEnabled": live},
        (SOCKET, "/containers/json"): CONTAINERS if containers is None else containers,
    }
    return host


def run(host: RuntimeHost, **params: Any) -> dict[str, Any]:
    """Run the module; return what is told of restarts."""
    one = capability(host, **params)
    for step in one.plan(one.observe()).steps:
        one.apply(step)
    state = one.observe()
    plan = one.plan(state)
    result = one.result(state, plan)
    return {
        "required": list(plan.restart_required),
        "deferred": result["restart_deferred"],
        "blocked": list(plan.blocked_by),
        "warnings": list(plan.warnings),
    }


def test_running_containers_defer_a_restart_of_docker() -> None:
    host = docker()
    found = run(host, name="docker")
    assert found["required"] == []
    assert found["deferred"] == ["docker.service"]
    assert found["blocked"] == ["train", "b" * 12]
    (warning,) = found["warnings"]
    assert "would end train, bbbbbbbbbbbb. Next step: run again once they have ended" in warning
    assert "live-restore" in warning
    assert host.daemon()["features"] == {"cdi": True}
    # Nothing runs any more: the next run asks for it, and has nothing else to do.
    host.answers[SOCKET, "/containers/json"] = []
    assert run(host, name="docker") == {
        "required": ["docker.service"],
        "deferred": [],
        "blocked": [],
        "warnings": [],
    }


def test_check_mode_tells_it_beforehand() -> None:
    one = capability(docker(), name="docker")
    plan = one.plan(one.observe())
    assert plan.restart_required == ()
    assert plan.blocked_by == ("train", "b" * 12)


@pytest.mark.parametrize(
    ("host", "params"),
    [
        (docker(live=True), {}),
        (docker(containers=[]), {}),
        (docker(), {"restart": "always"}),
    ],
    ids=["live-restore", "idle", "always"],
)
def test_restart_that_ends_nothing_or_was_asked_for(host: RuntimeHost, params: Any) -> None:
    found = run(host, name="docker", **params)
    assert (found["required"], found["deferred"]) == (["docker.service"], [])
    assert (found["blocked"], found["warnings"]) == ([], [])


@pytest.mark.parametrize("runtime", ["docker", "containerd"])
def test_a_restart_that_is_never_wanted_is_deferred(runtime: str) -> None:
    files = {DAEMON: "{}", CONFIG: "version = 2\n"}
    host = RuntimeHost(files, docker="26.1.5", containerd="1.7.24")
    found = run(host, name=runtime, restart="never")
    assert (found["required"], found["deferred"]) == ([], [f"{runtime}.service"])
    assert "must be restarted before its settings take effect" in found["warnings"][0]


@pytest.mark.parametrize("answers", [{}, {(SOCKET, "/info"): []}, {(SOCKET, "/info"): {}}])
def test_docker_that_does_not_answer_may_run_something(answers: Any) -> None:
    host = docker()
    host.answers = answers
    found = run(host, name="docker")
    assert found["deferred"] == ["docker.service"]
    assert (
        "would end containers that are not known, as docker does not answer" in found["warnings"][0]
    )


def test_docker_that_does_not_run_runs_nothing() -> None:
    host = docker()
    host.commands["systemctl", "show"] = "ActiveState=inactive\n"
    found = run(host, name="docker")
    assert (found["required"], found["deferred"], found["blocked"]) == ([], [], [])


def test_socket_of_the_file() -> None:
    hosts = '{"hosts": ["tcp://127.0.0.1:2375", "unix:///run/other.sock"]}'
    host = docker(text=hosts)
    host.answers = {("/run/other.sock", key[1]): one for key, one in host.answers.items()}
    assert run(host, name="docker")["blocked"] == ["train", "b" * 12]


def test_reload_waits_for_nothing() -> None:
    host = docker(text='{"features": {"cdi": true}}')
    host.install_toolkit()
    one = capability(host, name="docker", mode="runtime_class")
    state = one.observe()
    plan = one.plan(state)
    result = one.result(state, plan)
    assert result["reload_required"] == ["docker.service"]
    assert (result["restart_deferred"], plan.blocked_by, plan.warnings) == ([], (), ())


SHIM = "/usr/bin/containerd-shim-runc-v2\0-namespace\0k8s.io\0-id\0" + "c" * 64 + "\0-address\0x\0"
CONMON = "/usr/libexec/crio/conmon\0-b\0/run/x\0-c\0" + "d" * 64 + "\0"


@pytest.mark.parametrize(
    ("kill", "ends"), [("process", False), ("control-group", True), ("mixed", True)]
)
@pytest.mark.parametrize("root", ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"])
def test_unit_that_takes_its_containers_along(kill: str, ends: bool, root: str) -> None:
    group = "/system.slice/containerd.service"
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    host.commands["systemctl", "show"] = (
        f"ActiveState=active\nActiveEnterTimestampMonotonic=1\nKillMode={kill}\nControlGroup={group}\n"
    )
    host.files.update(
        {
            f"{root}{group}/cgroup.procs": "1\n2\n3\n",
            "/proc/1/cmdline": "/usr/bin/containerd\0",
            "/proc/2/cmdline": SHIM,
            "/proc/3/cmdline": CONMON,
        }
    )
    found = run(host)
    assert found["blocked"] == (["c" * 12, "d" * 12] if ends else [])
    assert found["required"] == ([] if ends else ["containerd.service"])


def test_a_runtime_that_does_not_run_is_told_of_unless_it_is_restarted_anyway() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    host.commands["systemctl", "show"] = "ActiveState=failed\n"
    told = "containerd.service is failed, so no container starts. Next step: systemctl start containerd.service"
    one = capability(host)
    assert told not in one.plan(one.observe()).warnings
    host.started(1e9)
    assert run(host)["warnings"] == []
    later = f"ActiveState=failed\nStateChangeTimestampMonotonic={int(1e15)}\n"
    host.commands["systemctl", "show"] = later
    assert run(host)["warnings"] == [told]
    absent = capability(host, state="absent")
    assert told not in absent.plan(absent.observe()).warnings


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ("UnitFileState=disabled\nWantedBy=\nRequiredBy=\nTriggeredBy=\n", True),
        ("UnitFileState=disabled\nWantedBy=docker.service\n", False),
        ("UnitFileState=disabled\nTriggeredBy=docker.socket\n", False),
        ("UnitFileState=enabled\nWantedBy=multi-user.target\n", False),
        ("UnitFileState=\n", False),
    ],
)
def test_a_runtime_that_no_boot_starts_is_told_of(properties: str, *, told: bool) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    run(host)
    host.started(1e9)
    host.commands["systemctl", "show"] = f"{host.commands['systemctl', 'show']}{properties}"
    words = (
        "containerd.service is disabled, and no other unit starts it: after the next boot no container starts. "
        "Next step: systemctl enable containerd.service"
    )
    assert run(host)["warnings"] == ([words] if told else [])


def test_a_runtime_that_failed_before_the_last_edit_is_started() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    run(host)
    host.commands["systemctl", "show"] = "ActiveState=failed\nStateChangeTimestampMonotonic=1\n"
    restored = run(host, state="absent")
    assert restored["required"] == ["containerd.service"]


def test_runtime_of_containers_that_run_is_not_taken_away() -> None:
    """They outlive dockerd with live-restore, and could not be started again."""
    host = docker(live=True, containers=CONTAINERS[:1])
    host.install_toolkit()
    run(host, name="docker", mode="runtime_class")
    made = {"Name": "/train", "HostConfig": {"Runtime": "nvidia"}}
    host.answers[SOCKET, f"/containers/{'a' * 64}/json"] = made
    before = host.daemon()
    for change in ({"mode": "cdi"}, {"state": "absent"}):
        with pytest.raises(NodeError, match=r"could not start train again.*the runtime nvidia"):
            run(host, name="docker", **change)
    assert host.daemon() == before
    made["HostConfig"] = {"Runtime": "runc"}
    run(host, name="docker", mode="cdi")
    assert "runtimes" not in host.daemon()
