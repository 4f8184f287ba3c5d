# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A runtime is what its unit starts: the command line chooses the files, and flags come before keys."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime import start_command
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import restart
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.start_commands import read
from ansible_collections.gpu.node.plugins.module_utils._runtime.state import DOCKER

from tests.fakes.library.runtime_host import (
    CONFIG,
    CRIO,
    DAEMON,
    OLD,
    RuntimeHost,
    converge,
    planned,
)

OPTIONS = "/etc/default/docker"
OTHER = "/etc/containerd/other.toml"
SOCKET = "/var/run/docker.sock"


def started_as(host: RuntimeHost, *argv: str, group: str = "") -> RuntimeHost:
    """Have the main process of each unit be a program with arguments."""
    host.commands["systemctl", "show"] = (
        "LoadState=loaded\nActiveState=active\nActiveEnterTimestampMonotonic=1\n"
        f"StateChangeTimestampMonotonic=1\nMainPID=77\nControlGroup={group}\n"
        "FragmentPath=/usr/lib/systemd/system/some.service\n"
    )
    host.files["/proc/77/cmdline"] = "\0".join([*argv, ""])
    return host


@pytest.mark.parametrize(
    ("exec_start", "environment", "args"),
    [
        (
            "/usr/bin/dockerd -H fd:// $DOCKER_OPTS",
            {"DOCKER_OPTS": "-D --debug"},
            "-H fd:// -D --debug",
        ),
        ("/usr/bin/dockerd ${A}${B}/x $$ $NONE", {"A": "--c=", "B": "/e t"}, "--c=/e t/x $"),
        ("/usr/bin/dockerd $QUOTED", {"QUOTED": "--label 'a b'"}, "--label a b"),
        ("/usr/bin/start dockerd", {}, None),
    ],
)
def test_arguments_of_a_unit_are_expanded_as_systemd_does(
    exec_start: str, environment: dict[str, str], args: str | None
) -> None:
    shown = [f"{{ path=/usr/bin/x ; argv[]={exec_start} ; ignore_errors=no ; pid=0 }}"]
    found = start_command.from_unit(shown, environment, "dockerd")
    assert (None if found is None else " ".join(found)) == args


def test_an_environment_file_is_read_as_systemd_reads_it() -> None:
    text = "# no=1\n; no=2\nA=\"--x  y\"\nB=--z \\\n  --w\nC='q'\n\nD\n"
    assert start_command.environment_file(text) == {"A": "--x  y", "B": "--z   --w", "C": "q"}


def test_a_unit_that_does_not_run_is_read_with_its_environment_files() -> None:
    host = RuntimeHost({OPTIONS: "DOCKER_OPTS=--default-runtime=runc\n"}, docker="26.1.5")
    host.commands["systemctl", "show"] = (
        "MainPID=0\nActiveState=inactive\nEnvironment=DOCKER_OPTS=--no OTHER=1\n"
        f"EnvironmentFiles=/etc/sysconfig/docker (ignore_errors=yes)\nEnvironmentFiles={OPTIONS} (ignore_errors=yes)\n"
        "ExecStart={ path=/usr/sbin/dockerd ; argv[]=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS ; pid=0 }\n"
    )
    commands = read(host, "docker.service", DOCKER)  # type: ignore[arg-type]
    assert commands.running == commands.next_start
    assert commands.running.args == ("-H", "fd://", "--default-runtime=runc")
    host.install_toolkit()
    with pytest.raises(InputError, match=f"--default-runtime=runc, set in {OPTIONS}"):
        planned(host, name="docker", mode="default_runtime")


def test_the_file_that_containerd_was_started_with_is_edited() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n", OTHER: "version = 2\n"}, containerd="1.7.24")
    started_as(host, "/usr/bin/containerd", "--log-level=info", "-c", OTHER)
    assert converge(host) == [f"set enable_cdi = true in {OTHER}"]
    assert ("containerd", "--config", OTHER, "--log-level=info", "config", "dump") in host.ran
    assert "enable_cdi" not in host.files[CONFIG]
    host.files["/etc/gpu-node/cdi.json"] = (
        '{"path": "/etc/cdi/a.yaml", "hooks": "auto", "library_folders": [], "driver_root": "/", "generator": "nvml"}'
    )
    (check,) = runtimes.look(host, runtimes.there(host), required="auto").values()  # type: ignore[arg-type]
    assert "CDI" not in check.cause
    with pytest.raises(InputError, match=f"config_path: '{CONFIG}'.*expected {OTHER}"):
        planned(host, config_path=CONFIG)


def test_a_program_that_a_wrapper_starts_is_found_in_the_unit() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n", OTHER: "version = 2\n"}, containerd="1.7.24")
    started_as(host, "/bin/sh", "/usr/local/bin/wrapper", group="/system.slice/containerd.service")
    host.files["/sys/fs/cgroup/system.slice/containerd.service/cgroup.procs"] = "77\n78\n"
    host.files["/proc/78/cmdline"] = f"/usr/bin/containerd\0--config={OTHER}\0"
    assert converge(host) == [f"set enable_cdi = true in {OTHER}"]


def test_flags_and_variables_of_cri_o_are_tried_and_named() -> None:
    host = started_as(RuntimeHost(crio="1.30.0"), "/usr/bin/crio", "--log-level=debug")
    unit = "/usr/lib/systemd/system/some.service"
    host.files[unit] = "Environment=CONTAINER_CDI_SPEC_DIRS=/opt/cdi\n"
    host.files["/proc/77/environ"] = "HOME=/\0CONTAINER_CDI_SPEC_DIRS=/opt/cdi\0"
    # As crio config shows it with that variable.
    shown = Completed(0, '[crio.runtime]\ncdi_spec_dirs = ["/opt/cdi"]\n', "")
    host.commands["crio", "--log-level=debug", "config"] = shown
    with pytest.raises(InputError, match=f"cdi_spec_dirs in {CRIO}.*set in {unit}"):
        planned(host, name="cri-o")


def test_the_folder_that_cri_o_was_started_with_gets_the_file() -> None:
    host = started_as(RuntimeHost(crio="1.30.0"), "/usr/bin/crio", "--config-dir", "/etc/site.d")
    host.install_toolkit()
    (step,) = converge(host, name="cri-o", mode="runtime_class")
    assert "/etc/site.d/zz-gpu-node.conf" in step


class Refusing(RuntimeHost):
    """A machine whose units come up with their old files only."""

    def __init__(self, files: dict[str, str], **versions: str) -> None:
        super().__init__(files, **versions)  # type: ignore[arg-type]
        self.old = dict(files)
        self.commands["journalctl",] = "it says why\n"
        for verb in ("restart", "reload"):
            self.commands["systemctl", verb] = self._start

    def _start(self, _argv: tuple[str, ...]) -> Completed:
        same = all(self.files[path] == text for path, text in self.old.items())
        return Completed(0 if same else 1, "", "" if same else "Job failed")


def test_files_that_a_runtime_does_not_start_with_are_put_back() -> None:
    text = f'version = 2\n[plugins."{OLD}"]\nenable_cdi = false\n'
    host = Refusing({CONFIG: text}, containerd="1.7.24")
    before = host.own_files()
    converge(host)
    with pytest.raises(NodeError, match="as it was before") as caught:
        converge(host, restart_now=["containerd.service"])
    assert caught.value.cause == "it says why"
    assert host.own_files() == before
    calls = [" ".join(argv[1:]) for argv in host.ran if argv[:2] != ("systemctl", "show")]
    calls = [call for call in calls if "containerd.service" in call and "--unit" not in call]
    assert calls == ["reset-failed containerd.service", "restart containerd.service"] * 2
    assert planned(host).steps  # the next run finds what this one had found


def test_docker_that_says_it_lacks_a_setting_is_restarted_and_otherwise_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "PAUSES", ())
    host = RuntimeHost({DAEMON: '{"features": {"cdi": true}}'}, docker="26.1.5")
    assert planned(host, name="docker").steps == ()
    host.answers[SOCKET, "/info"] = {"CDISpecDirs": []}
    (step,) = planned(host, name="docker").steps
    assert "restart docker.service: it runs without cdi = true" in step.summary
    host.commands["systemctl", "restart"] = host.commands["journalctl",] = ""
    with pytest.raises(NodeError, match=r"runs without cdi = true.*daemon\.json has"):
        converge(host, name="docker", restart_now=["docker.service"])


def test_a_unit_that_reads_another_file_from_its_next_start_on_is_named() -> None:
    host = started_as(RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24"), "containerd")
    host.commands["systemctl", "show"] += (  # type: ignore[operator]
        f"ExecStart={{ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd --config {OTHER} ; pid=77 }}\n"
    )
    (warning,) = planned(host).warnings
    assert f"containerd.service reads {OTHER} from its next start on" in warning
