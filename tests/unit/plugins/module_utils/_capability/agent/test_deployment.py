# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A daemon that is deployed, does not become ready, and is put back, on a machine of dictionaries."""

from __future__ import annotations

import hashlib
import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.agent import (
    deployment as device_plugin,
)
from ansible_collections.gpu.node.plugins.module_utils._capability.agent.deployment import (
    SPEC,
    STATUS,
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._core.agent import env_file
from ansible_collections.gpu.node.plugins.module_utils._core.agent.deployment import (
    LABELS_UNIT,
    UNIT,
)
from ansible_collections.gpu.node.plugins.module_utils._core.agent.desired import (
    CONFIG,
    CONFIGS,
    SETTINGS,
    UNITS,
)
from ansible_collections.gpu.node.plugins.module_utils._core.agent.rollback import Kept, parse
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from fakes import FakeHost

PREFIX = "/opt/gpu-node"
LABELS = {name: one["default"] for name, one in SPEC["argument_spec"]["labels"]["options"].items()}
KEPT = f"{PREFIX}/rollback.json"
UNIT_FILE = f"{UNITS}/{UNIT}"


class Machine(FakeHost):
    """A node whose daemon serves, or does not, depending on its release and its configuration."""

    def __init__(self, *bad: str) -> None:
        quiet = ("python3", "tar", "cp", "journalctl")
        super().__init__(commands={(name,): "" for name in quiet})
        self.commands[("journalctl",)] = "it said this"
        self.commands[("systemctl",)] = self.systemctl
        self.bad = bad
        self.pid = self.restarts = 0
        self.crashes = False
        self.killed_at = ""
        self.labels: t.Dict[str, str] = {}  # what the process that labels the node was started with
        self.removal = Completed(0, "", "")

    def run(self, argv: t.Sequence[str], **more: t.Any) -> Completed:
        name = argv[0].rsplit("/", 1)[-1]
        if self.killed_at and self.killed_at in " ".join(argv):
            raise KeyboardInterrupt
        if name == "gpu-plugin" and argv[1] == "check-config":
            text = self.files[argv[-1]]
            release = self.release(argv[0])
            refused = f"{release} refuses" if "unknown" in text and release == "r2" else ""
            self.ran.append(tuple(argv))
            return Completed(int(bool(refused)), "", refused)
        if argv[-1] == "--remove":
            self.ran.append(tuple(argv))
            return self.removal
        if name in ("gpu-plugin", "python"):
            self.ran.append(tuple(argv))
            return Completed(0, "", "")
        return super().run(argv, **more)

    def read(self, path: str) -> t.Optional[str]:
        if path.startswith("/proc/") and self.crashes and self.current == "r2":
            raise NodeError(f"cannot read {path}", cause="No such process")
        return super().read(self.links.get(path, path))

    def release(self, program: str) -> str:
        parts = program.split("/")
        return parts[4] if parts[3] == "releases" else self.links[f"{PREFIX}/current"][9:]

    def systemctl(self, words: t.Tuple[str, ...]) -> Completed:
        if words[-1] == LABELS_UNIT or words[2:3] == (LABELS_UNIT,):
            return self.labels_systemctl(words[1])
        if words[1] == "show":
            state = "active" if self.pid else "inactive"
            lines = {"ActiveState": state, "UnitFileState": "enabled", "MainPID": str(self.pid)}
            if self.crashes and self.current == "r2":
                self.restarts += 1
            text = "".join(f"{key}={value}\n" for key, value in lines.items())
            return Completed(0, f"{text}NRestarts={self.restarts}\n", "")
        if words[1] == "restart":
            self.start()
        return Completed(0, "", "")

    def labels_systemctl(self, verb: str) -> Completed:
        if verb == "restart":
            self.labels = env_file.parse(self.files[SETTINGS])
            variables = {**self.labels, "GPU_NODE_RELEASE": self.current}
            pairs = (f"{name}={text}" for name, text in variables.items())
            self.files["/proc/4711/environ"] = "\0".join(pairs)
        if verb in ("stop", "disable"):
            self.labels = {}
        state, pid = ("active", 4711) if self.labels else ("inactive", 0)
        text = f"ActiveState={state}\nUnitFileState=enabled\nMainPID={pid}\n"
        return Completed(0, text if verb == "show" else "", "")

    @property
    def current(self) -> str:
        return self.links.get(f"{PREFIX}/current", "").rsplit("/", 1)[-1]

    def start(self) -> None:
        self.pid += 1
        self.files[f"/proc/{self.pid}/environ"] = f"A=b\0GPU_NODE_RELEASE={self.current}\0"
        config = self.files[self.links.get(CONFIG, CONFIG)]
        good = self.current not in self.bad and not any(one in config for one in self.bad)
        status = {
            "pid": self.pid,
            "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "state": "serving" if good else "refused",
            "problem": None if good else "it can't",
            "resources": {},
        }
        self.files[STATUS] = json.dumps(status)


def parameters(digest: str, wait: int, **config: t.Any) -> t.Dict[str, t.Any]:
    return {
        "state": "started",
        "digest": digest,
        "config": config or None,
        "units": {
            UNIT: f"unit of {digest}",
            "gpu-mps@.service": "unit of MPS daemons",
            LABELS_UNIT: f"labels of {digest}",
        },
        "labels": None,
        "configs": {},
        "prefix": PREFIX,
        "payload": "/tmp/payload.tar.gz",
        "wait_timeout": wait,
        "keep_releases": 2,
        "python": None,
        "index_url": None,
        "lock_timeout": 300,
    }


def deploy(machine: Machine, digest: str, wait: int = 0, **config: t.Any) -> DevicePluginCapability:
    """Bring a release and a configuration into force, as the module does."""
    return run(machine, parameters(digest, wait, **config))


def run(machine: Machine, params: t.Mapping[str, t.Any]) -> DevicePluginCapability:
    found = DevicePluginCapability(machine, params, check_mode=False)
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert found.plan(found.observe()).steps == ()
    return found


@pytest.fixture(autouse=True)
def _no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DevicePluginCapability, "_devices", staticmethod(lambda: None))
    monkeypatch.setattr(device_plugin, "LOOK_AGAIN_SECONDS", 0.0)


def in_force(machine: Machine) -> t.Tuple[str, str, str]:
    return machine.current, machine.files[UNIT_FILE], machine.files[CONFIG]


def test_a_release_that_serves_stays_and_leaves_one_old_one() -> None:
    machine = Machine()
    for digest in ("r1", "r2", "r3"):
        machine.times[f"{PREFIX}/releases/{digest}/.complete"] = float(digest[1])
        deploy(machine, digest)
        assert machine.current == digest
    assert machine.listdir(f"{PREFIX}/releases") == ["r2", "r3"]
    assert KEPT not in machine.files


def test_a_release_that_does_not_become_ready_is_taken_back() -> None:
    machine = Machine("r2")
    deploy(machine, "r1")
    before = in_force(machine)
    with pytest.raises(NodeError, match="release r1 with its configuration was restored") as caught:
        deploy(machine, "r2")
    assert caught.value.details == {"rolled_back": True, "release": "r1"}
    assert caught.value.cause == "it said this"
    assert in_force(machine) == before
    assert "GPU_NODE_RELEASE=r1" in machine.files[f"/proc/{machine.pid}/environ"]
    assert KEPT not in machine.files
    machine.bad = ()
    deploy(machine, "r2")
    assert machine.current == "r2"


def test_a_release_that_ends_again_and_again_is_not_waited_for() -> None:
    machine = Machine("r2")
    deploy(machine, "r1")
    machine.crashes = True
    with pytest.raises(NodeError, match="the daemon ends again and again; release r1"):
        deploy(machine, "r2", 600)
    assert machine.current == "r1"


def test_a_configuration_that_does_not_become_ready_is_taken_back() -> None:
    machine = Machine("strategy")
    deploy(machine, "r1")
    before = in_force(machine)
    with pytest.raises(NodeError, match="was restored and serves"):
        deploy(machine, "r1", strategy="single")
    assert in_force(machine) == before


def test_the_first_of_all_has_nothing_to_go_back_to() -> None:
    machine = Machine("r1")
    with pytest.raises(NodeError, match="after 0 s the daemon's state is refused") as caught:
        deploy(machine, "r1")
    assert "rolled_back" not in caught.value.details
    assert machine.current == "r1"


def test_where_the_old_one_does_not_serve_either_both_stories_are_told() -> None:
    machine = Machine()
    deploy(machine, "r1")
    machine.bad = ("r1", "r2")
    with pytest.raises(NodeError, match="was restored, but after 0 s") as caught:
        deploy(machine, "r2")
    assert caught.value.details == {"rolled_back": False}
    assert machine.current == "r1"
    kept = parse(machine.files[KEPT])
    assert kept is not None
    assert kept.release == "r1"


def test_the_new_parser_refuses_before_anything_changes() -> None:
    machine = Machine()
    deploy(machine, "r1")
    before, pid = in_force(machine), machine.pid
    with pytest.raises(NodeError, match="config: the daemon refuses it: r2 refuses"):
        deploy(machine, "r2", unknown=1)
    assert in_force(machine) == before
    assert machine.pid == pid
    deploy(machine, "r1", unknown=1)  # which the old one's takes


@pytest.mark.parametrize(
    "at", ["tar -xzf", "-m venv", "pip install", "check-config", "daemon-reload", "restart"]
)
def test_a_run_that_is_killed_is_finished_or_taken_back_by_the_next(at: str) -> None:
    machine = Machine()
    deploy(machine, "r1")
    before = in_force(machine)
    machine.killed_at = at
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r2", more=1)
    machine.killed_at = ""
    machine.bad = ("r2",)
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        deploy(machine, "r2", more=1)
    assert in_force(machine) == before
    machine.bad = ()
    deploy(machine, "r2", more=1)
    assert machine.current == "r2"
    assert KEPT not in machine.files


def test_a_run_that_is_killed_while_it_waits_is_known_to_the_next() -> None:
    machine = Machine()
    deploy(machine, "r1")
    machine.bad = ("r2",)
    machine.killed_at = "journalctl"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r2")
    assert machine.current == "r2"
    assert parse(machine.files[KEPT]) == Kept("r1", machine.files[CONFIG], "unit of r1")
    machine.killed_at = ""
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        deploy(machine, "r2")
    assert machine.current == "r1"
    assert machine.listdir(f"{PREFIX}/releases") == ["r1", "r2"]


def test_what_serves_now_is_better_than_what_an_earlier_run_kept() -> None:
    machine = Machine()
    deploy(machine, "r1")
    machine.killed_at = "restart"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r1", early=1)
    machine.killed_at = ""
    machine.start()  # as the daemon does by itself when its configuration changes
    machine.bad = ("late",)
    before = in_force(machine)
    with pytest.raises(NodeError, match="was restored and serves"):
        deploy(machine, "r1", late=1)
    assert in_force(machine) == before


def test_a_release_that_is_gone_is_not_put_back() -> None:
    machine = Machine()
    deploy(machine, "r1")
    machine.files[KEPT] = json.dumps({"release": "gone", "config": "c", "unit": "u"})
    machine.bad = ("r2",)
    with pytest.raises(NodeError, match="release r1"):
        deploy(machine, "r2")


def test_it_waits_until_the_kubelet_has_accepted_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    deploy(machine, "r1")
    status = json.loads(machine.files[STATUS])
    status["resources"] = {"nvidia.com/gpu": {"registered": False, "devices": {}}}
    machine.files[STATUS] = json.dumps(status)
    machine.files["/var/lib/kubelet/device-plugins/kubelet.sock"] = ""

    def news(_self: DevicePluginCapability) -> None:
        status["resources"]["nvidia.com/gpu"]["registered"] = True
        machine.files[STATUS] = json.dumps(status)

    monkeypatch.setattr(DevicePluginCapability, "_await_news", news)
    found = DevicePluginCapability(machine, parameters("r1", 5), check_mode=False)
    (step,) = found.plan(found.observe()).steps
    assert step.summary == "wait: the kubelet has not accepted nvidia.com/gpu"
    found.apply(step)
    assert found.plan(found.observe()).steps == ()
    assert ("systemctl", "restart", UNIT) not in machine.ran[-4:]


def test_what_the_daemon_leaves_behind_goes_with_it() -> None:
    machine = Machine()
    deploy(machine, "r1")
    ours = ("/run/gpu-node/health.json", "/run/cdi/k8s.device-plugin.nvidia.com-gds.json")
    theirs = ("/run/cdi/nvidia.com-gpu.json", "/etc/cdi/nvidia.yaml")
    machine.files.update(dict.fromkeys((*ours, *theirs), "{}"))
    params = {**parameters("", 0), "state": "absent"}
    found = DevicePluginCapability(machine, params, check_mode=False)
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert machine.listdir(PREFIX) == []
    assert not {CONFIG, UNIT_FILE, *ours} & set(machine.files)
    assert set(theirs) <= set(machine.files)


@pytest.mark.parametrize(
    ("strategy", "toolkit", "names"),
    [
        (None, "", ["config", "shared"]),  # NVIDIA's default is envvar
        ("envvar", "", ["config", "shared"]),
        (["cdi-cri"], "", ["shared"]),
        (None, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n", []),
    ],
)
def test_s19_the_role_warns_where_an_image_may_take_gpus(
    strategy: t.Any, toolkit: str, names: t.List[str]
) -> None:
    machine = Machine()
    machine.files["/etc/nvidia-container-runtime/config.toml"] = toolkit
    chosen = {"flags": {"plugin": {"deviceListStrategy": strategy}}} if strategy else {}
    params = {
        **parameters("r1", 0, **chosen),
        "configs": {"shared": {"version": "v1"}},
        "labels": {**LABELS, "output": "off"},
    }
    found = DevicePluginCapability(machine, params, check_mode=True)
    plan = found.plan(found.observe())
    assert [one.partition(":")[0] for one in plan.warnings] == names
    assert all("NVIDIA_VISIBLE_DEVICES" in one for one in plan.warnings)


@pytest.mark.parametrize("name", ["settings.json", "env"])
def test_an_end_takes_the_settings_of_mps_daemons_whichever_release_wrote_them(name: str) -> None:
    machine = Machine()
    deploy(machine, "r1")
    gpu, folder = "GPU-1", "/run/gpu-node/mps"
    machine.commands[("systemctl", "list-units")] = f"gpu-mps@{gpu}.service loaded active running\n"
    texts = {"settings.json": '{"root": "/run/x"}', "env": "GPU_MPS_ROOT=/run/x\n"}
    machine.files[f"{folder}/{gpu}.{name}"] = texts[name]
    machine.files[f"/run/x/{gpu}.json"] = '{"clients": 1}'
    params = {**parameters("r1", 0), "state": "absent"}
    found = DevicePluginCapability(machine, params, check_mode=False)
    with pytest.raises(NodeError, match=rf"clients of {gpu} \(1\)"):
        found.plan(found.observe())
    del machine.files[f"/run/x/{gpu}.json"]
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert f"{folder}/{gpu}.{name}" not in machine.files
    assert ("systemctl", "stop", f"gpu-mps@{gpu}.service") in machine.ran


def test_labels_and_what_they_choose_from_come_and_go() -> None:
    machine = Machine()
    params = parameters("r1", 0)
    run(machine, {**params, "labels": LABELS})
    assert machine.labels["GPU_LABELS_OUTPUT"] == "api"
    chosen = {**params, "labels": {**LABELS, "output": "file"}, "configs": {"many": {"more": 1}}}
    found = run(machine, chosen)
    assert machine.links[CONFIG] == f"{CONFIGS}/default"
    assert "more" in machine.files[f"{CONFIGS}/many"]
    assert machine.labels["CONFIG_FILE_SRCDIR"] == CONFIGS
    removed = (f"{PREFIX}/bin/gpu-plugin", "labels", "--config", CONFIG, "--remove")
    assert machine.ran.count(removed) == 1  # the output is another
    machine.links[CONFIG] = f"{CONFIGS}/many"  # as the node's label says
    machine.start()  # which the daemon follows by itself
    assert found.plan(found.observe()).steps == ()

    run(machine, {**params, "labels": LABELS})
    assert CONFIG not in machine.links
    assert machine.listdir(CONFIGS) == []
    assert "CONFIG_FILE_SRCDIR" not in machine.labels

    machine.removal = Completed(1, "", "the API does not answer")
    off = run(machine, {**params, "labels": {**LABELS, "output": "off"}})
    state = off.observe()
    assert off.result(state, off.plan(state))["labels_left"] == "the API does not answer"
    assert not {SETTINGS, f"{UNITS}/{LABELS_UNIT}"} & set(machine.files)
    assert not machine.labels


def test_a_release_that_does_not_serve_leaves_the_labels_alone() -> None:
    machine = Machine("r2")
    run(machine, {**parameters("r1", 0), "labels": LABELS})
    before = machine.files[f"{UNITS}/{LABELS_UNIT}"], machine.labels
    other = {**LABELS, "extra": {"a": "b"}}
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        run(machine, {**parameters("r2", 0), "labels": other})
    assert (machine.files[f"{UNITS}/{LABELS_UNIT}"], machine.labels) == before
    machine.bad = ()
    run(machine, {**parameters("r2", 0), "labels": other})
    assert machine.files[f"{UNITS}/{LABELS_UNIT}"] == "labels of r2"
    assert machine.labels["GPU_LABELS_EXTRA"] == "a=b"


def test_teardown_takes_labels_and_configurations_with_it() -> None:
    machine = Machine()
    params = parameters("r1", 0)
    run(machine, {**params, "labels": LABELS, "configs": {"many": {}}})
    for state in ("stopped", "absent"):
        found = DevicePluginCapability(machine, {**params, "state": state}, check_mode=False)
        for step in found.plan(found.observe()).steps:
            found.apply(step)
        assert not machine.labels
    assert [one for one in (*machine.files, *machine.links) if one.startswith("/etc")] == []
