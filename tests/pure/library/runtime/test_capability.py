# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of runtimes are edited, checked by the runtime, and never replaced by something worse."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import (
    BEFORE,
    MARK,
    RECORD,
)

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.runtime_host import (
    CONFIG,
    CRIO,
    DAEMON,
    NEW,
    OLD,
    WRAPPER,
    RuntimeHost,
    capability,
    converge,
)

TEXT = """\
version = 2

# ours, do not touch
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "pause:3.10"  # mirrored
"""
DROP_IN = "/etc/containerd/conf.d/zz-gpu-node.toml"


def machine(text: str | None = TEXT, version: str = "1.7.24", **more: Any) -> RuntimeHost:
    return RuntimeHost({} if text is None else {CONFIG: text}, containerd=version, **more)


def planned(host: FakeHost, **params: Any) -> Any:
    one = capability(host, **params)
    return one.plan(one.observe())


def test_edit_keeps_everything_and_is_the_announced_one() -> None:
    host = machine()
    one = capability(host)
    plan = one.plan(one.observe())
    assert [step.summary for step in plan.steps] == [f"set enable_cdi = true in {CONFIG}"]
    assert plan.restart_required == ("containerd.service",)
    one.apply(plan.steps[0])
    assert plan.before in TEXT
    assert plan.after in host.files[CONFIG]
    assert "enable_cdi = true" in plan.after
    assert [line for line in TEXT.splitlines() if line not in host.files[CONFIG]] == []
    assert sorted(host.files) == sorted([CONFIG, RECORD, MARK, BEFORE])


def test_second_run_changes_nothing_and_a_restart_that_was_missed_is_asked_for_again(
    clock: Clock,
) -> None:
    host = machine()
    converge(host)
    plan = planned(host)
    assert plan.steps == ()
    assert plan.restart_required == ("containerd.service",)
    host.started(clock.now + 60)
    assert planned(host).restart_required == ()


@pytest.mark.parametrize(("version", "number", "section"), [("1.7.24", 2, OLD), ("2.1.4", 3, NEW)])
def test_missing_file_is_made_in_the_format_of_its_containerd_and_removed_again(
    version: str, number: int, section: str
) -> None:
    host = machine(None, version)
    wanted = {"spec_dirs": ["/opt/cdi"]}
    converge(host, **wanted)
    made = tomllib.loads(host.files[CONFIG])
    assert made["version"] == number
    assert made["plugins"][section]["cdi_spec_dirs"][-1] == "/opt/cdi"
    converge(host, state="absent", **wanted)
    assert host.own_files() == {}


def test_new_containerd_is_asked_nothing_that_it_does_by_itself() -> None:
    host = machine("version = 3\n", "2.1.4")
    assert converge(host) == []
    assert host.files == {CONFIG: "version = 3\n"}


def test_file_in_an_older_format_than_the_dump_is_edited_in_its_own() -> None:
    host = machine(TEXT + "    enable_cdi = false\n", "2.1.4")
    converge(host)
    assert tomllib.loads(host.files[CONFIG])["plugins"][OLD]["enable_cdi"] is True
    assert NEW not in host.files[CONFIG]


def test_backup_on_demand() -> None:
    host = machine()
    one = capability(host, backup=True)
    one.apply(one.plan(one.observe()).steps[0])
    saved = one.result(one.observe(), one.plan(one.observe()))["backup_file"]
    assert host.files[saved] == TEXT


@pytest.mark.parametrize("text", ["version = = 2\n", "[plugins\n"])
def test_damaged_file_is_left_as_it_is(text: str) -> None:
    host = machine(text)
    with pytest.raises(NodeError, match=rf"{CONFIG} is not valid TOML.*line 1"):
        capability(host).observe()
    assert host.files == {CONFIG: text}


def test_damaged_json_is_left_as_it_is() -> None:
    host = RuntimeHost({DAEMON: '{\n  "a": 1,\n}\n'}, docker="26.1.5")
    with pytest.raises(NodeError, match=rf"{DAEMON} is not valid JSON.*line \d, column \d"):
        capability(host, name="docker").observe()
    assert host.files == {DAEMON: '{\n  "a": 1,\n}\n'}


RUNTIMES = {"containerd": "1.7.24", "docker": "26.1.5", "cri-o": "1.31.0"}
FILES = {
    "containerd": (CONFIG, TEXT),
    "docker": (DAEMON, '{"debug": true}'),
    "cri-o": (CRIO, '[crio.image]\npause_image = "pause:9"\n'),
}


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_result_that_the_runtime_refuses_never_reaches_the_file(runtime: str, state: str) -> None:
    path, text = FILES[runtime]
    host = RuntimeHost({path: text}, **{runtime.replace("-", ""): RUNTIMES[runtime]})
    params = {"name": runtime, "spec_dirs": ["/opt/cdi"]}
    if state == "absent":
        converge(host, **params)
        host.files[path] += "\n"  # it is edited, not put back, now that others have changed it
    before = host.own_files()
    host.refuses_trials = True
    with pytest.raises(
        NodeError, match=rf"{runtime} refuses what {path} .*(containerd|dockerd|crio): no"
    ):
        planned(host, state=state, **params)
    assert host.own_files() == before
    host.refuses_trials = False
    converge(host, state=state, **params)
    assert host.own_files() != before


def test_import_whose_section_counts_is_edited_before_files_were_merged() -> None:
    text = 'imports = ["/etc/containerd/more.toml"]\n' + TEXT
    host = machine(text)
    more = f'[plugins."{OLD}"]\nenable_cdi = false\n'
    host.files["/etc/containerd/more.toml"] = more
    assert converge(host) == ["set enable_cdi = true in /etc/containerd/more.toml"]
    assert host.files[CONFIG] == text
    converge(host, state="absent")
    assert host.own_files() == {CONFIG: text, "/etc/containerd/more.toml": more}


def test_disabled_cri_is_refused() -> None:
    host = machine(f'version = 2\ndisabled_plugins = ["{OLD}"]\n')
    with pytest.raises(NodeError, match="disables the CRI plugin"):
        planned(host)


def test_drop_in_where_it_is_merged() -> None:
    text = 'imports = ["/etc/containerd/conf.d/*.toml"]\n' + TEXT
    host = machine(text, "2.1.4")
    host.install_toolkit()
    assert converge(host, mode="runtime_class") != []
    assert host.files[CONFIG] == text
    handler = host.cri()["containerd"]["runtimes"]["nvidia"]
    assert handler["options"] == {"BinaryName": WRAPPER}
    assert tomllib.loads(host.files[DROP_IN])["version"] == 2
    converge(host, state="absent")
    assert host.own_files() == {CONFIG: text, WRAPPER: ""}


@pytest.mark.parametrize("version", ["1.7.24", "2.0.5"])
def test_no_drop_in_where_it_would_hide_the_main_file(version: str) -> None:
    host = machine('imports = ["/etc/containerd/conf.d/*.toml"]\n' + TEXT, version)
    host.install_toolkit()
    converge(host, mode="runtime_class")
    assert DROP_IN not in host.files
    assert host.cri()["sandbox_image"] == "pause:3.10"


def test_handler_comes_and_goes_with_the_mode() -> None:
    host = machine()
    host.install_toolkit()
    converge(host, mode="default_runtime", handler="gpu")
    assert host.cri()["containerd"]["default_runtime_name"] == "gpu"
    converge(host, mode="runtime_class", handler="gpu")
    assert host.cri()["containerd"]["default_runtime_name"] == "runc"
    assert "gpu" in host.cri()["containerd"]["runtimes"]
    converge(host, mode="cdi")
    assert list(host.cri()["containerd"]["runtimes"]) == ["runc"]
    assert host.cri()["enable_cdi"] is True
    converge(host, state="absent")
    assert host.own_files() == {CONFIG: TEXT, WRAPPER: ""}


@pytest.mark.parametrize("mode", ["runtime_class", "default_runtime"])
@pytest.mark.parametrize("runtime", ["containerd", "docker", "cri-o"])
def test_handler_without_its_program_is_refused(mode: str, runtime: str) -> None:
    host = RuntimeHost(containerd="1.7.24", docker="26.1.5", crio="1.31.0")
    with pytest.raises(NodeError, match=f"{WRAPPER} is not on the node, and mode {mode} needs it"):
        planned(host, name=runtime, mode=mode)
    host.install_toolkit("1.19.0")
    with pytest.raises(NodeError, match=r"version 1\.19\.0: before 1\.19\.1 containers could"):
        planned(host, name=runtime, mode=mode)
    host.install_toolkit("1.19.1")
    assert planned(host, name=runtime, mode=mode).steps
    host.commands[(WRAPPER,)] = "?"
    assert "is safe to use is not known" in planned(host, name=runtime, mode=mode).warnings[0]


def test_default_runtime_that_shows_all_gpus_is_a_warning() -> None:
    host = machine(
        TEXT + '[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "nvidia"\n'
    )
    assert "containers that ask for no GPU may see all" in planned(host).warnings[0]


def test_another_tool_that_rewrites_the_file_costs_one_edit_and_one_restart(clock: Clock) -> None:
    host = machine()
    host.install_toolkit()
    converge(host, mode="runtime_class")
    host.started(clock.now + 60)
    host.files[CONFIG] = TEXT.replace("3.10", "3.11")
    plan = planned(host, mode="runtime_class")
    assert len(plan.steps) == 1
    assert plan.restart_required == ("containerd.service",)
    converge(host, mode="runtime_class")
    converge(host, state="absent")
    assert host.own_files()[CONFIG] == TEXT.replace("3.10", "3.11")


def test_absent_after_others_have_edited_takes_back_only_ours() -> None:
    host = machine()
    host.install_toolkit()
    converge(host, mode="default_runtime")
    host.files[CONFIG] = host.files[CONFIG].replace("3.10", "3.11") + "\n[debug]\nlevel = 'info'\n"
    converge(host, state="absent")
    left = tomllib.loads(host.files[CONFIG])
    assert left == {**tomllib.loads(TEXT.replace("3.10", "3.11")), "debug": {"level": "info"}}
    assert "# ours, do not touch" in host.files[CONFIG]
    assert RECORD not in host.files


def test_absent_asks_for_a_restart_and_then_for_nothing(clock: Clock) -> None:
    host = machine()
    converge(host)
    host.started(clock.now + 60)
    plan = planned(host, state="absent")
    assert [step.summary for step in plan.steps] == [f"restore {CONFIG}"]
    assert plan.restart_required == ("containerd.service",)
    clock.now += 1
    host.started(1.0)
    converge(host, state="absent")
    assert planned(host, state="absent").steps == ()
    assert planned(host, state="absent").restart_required == ("containerd.service",)


def test_absent_forgets_a_file_that_others_have_cleared() -> None:
    host = machine()
    converge(host)
    host.files[CONFIG] = "version = 2\n"
    assert converge(host, state="absent") == [f"remove the saved copy of {CONFIG}"]
    assert host.own_files() == {CONFIG: "version = 2\n"}


def test_absent_works_where_cdi_never_did() -> None:
    host = machine(TEXT, "1.6.20")
    assert converge(host, state="absent") == []


def test_edit_that_changes_nothing_in_effect_asks_for_no_restart(clock: Clock) -> None:
    host = RuntimeHost({DAEMON: '{"features": {"cdi": true}}'}, docker="26.1.5")
    host.install_toolkit()
    converge(host, name="docker", mode="default_runtime")
    host.started(clock.now + 60)
    host.version = ()
    host.commands["dockerd", "--version"] = "Docker version 28.5.2, build abc"
    host.files[DAEMON] = "{}"
    converge(host, name="docker")
    assert planned(host, name="docker").restart_required == ()


def test_docker_keeps_its_other_keys() -> None:
    text = '{\n    "log-driver": "local",\n    "runtimes": {"crun": {"path": "/c"}}\n}\n'
    host = RuntimeHost({DAEMON: text}, docker="26.1.5")
    host.install_toolkit()
    plan = planned(host, name="docker", mode="default_runtime")
    assert plan.restart_required == ("docker.service",)
    converge(host, name="docker", mode="default_runtime")
    assert host.daemon() == {
        "log-driver": "local",
        "runtimes": {"crun": {"path": "/c"}, "nvidia": {"path": WRAPPER}},
        "features": {"cdi": True},
        "default-runtime": "nvidia",
    }
    converge(host, name="docker", state="absent")
    assert host.own_files() == {DAEMON: text, WRAPPER: ""}


def test_docker_before_validation_existed_gets_a_handler() -> None:
    host = RuntimeHost({}, docker="20.10.24")
    del host.commands["dockerd", "--validate"]
    host.install_toolkit()
    converge(host, name="docker", mode="runtime_class")
    assert host.daemon() == {"runtimes": {"nvidia": {"path": WRAPPER}}}
    with pytest.raises(
        NodeError, match=r"docker 20\.10\.24 does not support .* came with docker 25"
    ):
        planned(host, name="docker")


def test_crio_gets_a_file_of_ours() -> None:
    theirs = {"/etc/crio/crio.conf": '[crio.runtime]\ndefault_runtime = "crun"\n'}
    host = RuntimeHost(dict(theirs), crio="1.31.0")
    assert converge(host, name="cri-o") == []
    host.install_toolkit()
    converge(host, name="cri-o", mode="default_runtime")
    written = tomllib.loads(host.files[CRIO])["crio"]["runtime"]
    assert (written["default_runtime"], *written["runtimes"]) == ("nvidia", "nvidia")
    # The rest of the entry is the one of crun, which CRI-O has built in.
    entry = written["runtimes"]["nvidia"]
    assert (entry["runtime_path"], entry["runtime_root"]) == (WRAPPER, "/run/crun")
    converge(host, name="cri-o", mode="runtime_class")
    assert "default_runtime" not in host.files[CRIO]
    converge(host, name="cri-o", state="absent")
    assert host.own_files() == {**theirs, WRAPPER: ""}


def test_podman_needs_nothing() -> None:
    host = RuntimeHost(podman="4.3.1")
    one = capability(host, name="podman")
    plan = one.plan(one.observe())
    assert (plan.steps, plan.restart_required) == ((), ())
    assert one.result(one.observe(), plan)["runtime_version"] == "4.3.1"
    with pytest.raises(NodeError, match=r"podman 4\.0\.3 does not support"):
        planned(RuntimeHost(podman="4.0.3"), name="podman")
    with pytest.raises(InputError, match="cdi for podman"):
        planned(host, name="podman", mode="runtime_class")


def test_auto_takes_all_that_can() -> None:
    host = RuntimeHost({CONFIG: TEXT}, containerd="1.7.24", docker="20.10.24", podman="4.3.1")
    one = capability(host, name="auto")
    plan = one.plan(one.observe())
    assert plan.restart_required == ("containerd.service",)
    assert "left out: docker 20.10.24 does not support" in plan.warnings[0]
    names = [one["name"] for one in one.result(one.observe(), plan)["runtimes"]]
    assert names == ["containerd", "podman"]
    with pytest.raises(NodeError, match=r"docker 20\.10\.24 does not support"):
        planned(RuntimeHost(docker="20.10.24"), name="auto")


def test_auto_leaves_dockers_containerd_alone() -> None:
    text = f'version = 2\ndisabled_plugins = ["{OLD}"]\n'
    host = RuntimeHost({CONFIG: text}, containerd="1.7.24", docker="26.1.5")
    assert converge(host, name="auto") == [f"set cdi = true in {DAEMON}"]
    assert host.files[CONFIG] == text


def test_a_node_without_a_runtime_is_refused() -> None:
    with pytest.raises(NodeError, match="containerd is not installed"):
        planned(FakeHost())
    with pytest.raises(NodeError, match="no container runtime is installed"):
        planned(FakeHost(), name="auto")


@pytest.mark.parametrize("runtime", ["auto", "podman"])
def test_file_without_its_runtime_is_refused(runtime: str) -> None:
    with pytest.raises(InputError, match="config_path"):
        capability(FakeHost(), name=runtime, config_path=CONFIG)
