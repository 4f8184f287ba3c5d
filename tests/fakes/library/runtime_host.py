# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Stand-ins for container runtimes: they read the files of a machine of dictionaries."""

from __future__ import annotations

import fnmatch
import json
import tomllib
import typing as t

import tomlkit
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._generated.container_runtime import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.capability import RuntimeCapability

from tests.fakes.library.fakes import FakeHost
from tests.fakes.runtime.crio_files import BUILT_IN

CONFIG = "/etc/containerd/config.toml"
DAEMON = "/etc/docker/daemon.json"
CRIO = "/etc/crio/crio.conf.d/zz-gpu-node.conf"
# Keys of a runtime that the template of CRI-O 1.36.3 leaves out of `crio config`.
UNSHOWN = (
    "seccomp_profile",
    "no_sync_log",
    "stream_websockets",
    "exec_cpu_affinity",
    "container_create_timeout",
    "runtime_pull_image",
)
DIRS = ["/etc/cdi", "/var/run/cdi"]
WRAPPER = "/usr/bin/nvidia-container-runtime"
OLD, NEW = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
Config = t.Dict[str, t.Any]


def merged(one: Config, other: Config) -> Config:
    """Return two configurations as containerd 2.1 merges them."""
    found = dict(one)
    for key, value in other.items():
        mine = found.get(key)
        both = isinstance(mine, dict) and isinstance(value, dict)
        found[key] = merged(mine, value) if both else value  # type: ignore[arg-type]
    return found


class RuntimeHost(FakeHost):
    """A machine with runtimes of some versions on it."""

    def __init__(
        self,
        files: t.Optional[t.Dict[str, str]] = None,
        *,
        containerd: str = "",
        docker: str = "",
        crio: str = "",
        podman: str = "",
        since: float = 1.0,
    ) -> None:
        super().__init__(files)
        self.version = tuple(map(int, containerd.split("."))) if containerd else ()
        self.refuses_trials = False
        if containerd:
            self.commands["containerd", "--version"] = f"containerd containerd.io {containerd} abc"
            self.commands["containerd", "--config"] = self._dump
            self.commands["containerd", "config"] = self._dump
        if docker:
            self.commands["dockerd", "--version"] = f"Docker version {docker}, build abc"
            self.commands["dockerd", "--validate"] = self._validate
            self.answers["/var/run/docker.sock", "/info"] = {"LiveRestoreEnabled": False}
            self.answers["/var/run/docker.sock", "/containers/json"] = []
        if crio:
            self.commands["conmon",] = self.commands["runc",] = ""
            self.commands["crio", "--version"] = f"crio version {crio}\n"
            self.commands["crio", "config"] = self._crio
            self.commands["crio", "--config-dir"] = self.commands["crio", "--config"] = self._crio
        if podman:
            self.commands["podman", "--version"] = f"podman version {podman}\n"
        self.started(since)

    def started(self, since: float, reloaded: t.Optional[float] = None) -> None:
        """Have all services run since some second of the machine's clock, and reloaded at another."""
        text = f"ActiveState=active\nActiveEnterTimestampMonotonic={int(since * 1e6)}\n"
        text += f"StateChangeTimestampMonotonic={int((reloaded or since) * 1e6)}\n"
        self.commands["systemctl", "show"] = text

    def install_toolkit(self, version: str = "1.19.1") -> None:
        self.files[WRAPPER] = ""
        self.commands[(WRAPPER,)] = f"NVIDIA Container Runtime version {version}\n"

    def own_files(self) -> t.Dict[str, str]:
        """Return all files but the marks that a boot removes."""
        return {path: text for path, text in self.files.items() if not path.startswith("/run/")}

    def cri(self) -> Config:
        """Return the section of the CRI plugin in effect."""
        return t.cast(Config, self._read(CONFIG)["plugins"][self._section])

    def daemon(self) -> Config:
        return t.cast(Config, json.loads(self.files[DAEMON]))

    @property
    def _section(self) -> str:
        return NEW if self.version >= (2,) else OLD

    def _load(self, path: str) -> Config:
        config = tomllib.loads(self.files.get(path, ""))
        plugins = config.get("plugins", {})
        if self.version >= (2,) and config.get("version", 3) == 2:
            moved = {NEW if name == OLD else name: value for name, value in plugins.items()}
            return {**config, "version": 3, "plugins": moved}
        return config

    def _read(self, path: str) -> Config:
        config = self._load(path)
        for pattern in config.get("imports", ()):
            for name in sorted(self.files):
                if fnmatch.fnmatch(name, pattern):
                    more = self._load(name)
                    if self.version < (2, 1):
                        for section, value in more.pop("plugins", {}).items():
                            config.setdefault("plugins", {})[section] = value
                    config = merged(config, {**more, "imports": config["imports"]})
        sandboxer = {"sandboxer": "podsandbox"} if self.version >= (2,) else {}
        base = {"enable_cdi": self.version >= (2,), "cdi_spec_dirs": DIRS}
        runc = {"runtime_type": "io.containerd.runc.v2", "options": {}, **sandboxer}
        runtimes: Config = {"runc": runc}
        named = config.get("plugins", {}).get(self._section, {}).get("containerd", {})
        if self.version < (2,) and "runtimes" in named:
            runtimes = {}  # the runtimes of a file take the place of the one by default
        base["containerd"] = {"default_runtime_name": "runc", "runtimes": runtimes}
        whole = merged({"version": 3, "plugins": {self._section: base}}, config)
        for one in whole["plugins"][self._section]["containerd"]["runtimes"].values():
            one.setdefault("sandboxer", "") if sandboxer else None
        if OLD in config.get("disabled_plugins", ()):
            del whole["plugins"][self._section]
        return whole

    def _dump(self, words: tuple[str, ...]) -> Completed:
        path = words[2] if words[1] == "--config" else "/nowhere"
        if words[-1] == "dump" and path not in self.files and self.version < (2,):
            return Completed(1, "", f"containerd: failed to load TOML: open {path}: no such file")
        config = self._read(path)
        if any("." not in one for one in config.get("disabled_plugins", ())):
            return Completed(1, "", "containerd: invalid disabled plugin URI")
        if self.refuses_trials and "trial" in path:
            return Completed(1, "", "containerd: no")
        version = 3 if self.version >= (2,) else 2
        return Completed(0, tomlkit.dumps({**config, "version": version}), "")

    def _validate(self, words: tuple[str, ...]) -> Completed:
        json.loads(self.files[words[-1]])
        if self.refuses_trials:
            return Completed(1, "", "dockerd: no")
        return Completed(0, "configuration OK\n", "")

    def _crio(self, words: tuple[str, ...]) -> Completed:
        """Show the configuration by the rules of CRI-O's source: a later file replaces the entry of a runtime."""
        if "--default" in words:
            return Completed(0, BUILT_IN, "")
        given = dict(zip(words[1::2], words[2::2], strict=False))
        folder = given.get("--config-dir", "/etc/crio/crio.conf.d")
        main = given.get("--config", "/etc/crio/crio.conf")
        names = [one for one in sorted(self.files) if one.startswith(f"{folder}/")]
        config: Config = {}
        runtimes: Config = {}
        for name in [main, *names]:
            read = tomllib.loads(self.files.get(name, ""))
            runtimes = {**runtimes, **read.get("crio", {}).get("runtime", {}).pop("runtimes", {})}
            config = merged(config, read)
        for one in runtimes.values():
            for key in UNSHOWN:
                one.pop(key, None)
        if runtimes:  # the one by default is shown beside others only
            config = merged(config, {"crio": {"runtime": {"runtimes": {"crun": {}, **runtimes}}}})
        if self.refuses_trials and "trial" in folder:
            return Completed(1, "", "crio: no")
        return Completed(0, tomlkit.dumps(config), "")


def with_kubelet(host: RuntimeHost, *args: str) -> RuntimeHost:
    """Return the node with a kubelet that runs with these arguments."""
    properties = host.commands["systemctl", "show"]
    host.commands["systemctl", "show", "kubelet.service"] = f"{properties}MainPID=88\n"
    host.files["/proc/88/cmdline"] = "\0".join(["/usr/bin/kubelet", *args, ""])
    return host


def capability(host: t.Any, **params: t.Any) -> RuntimeCapability:
    """Return the module's inside for parameters."""
    defaults = {name: option.get("default") for name, option in SPEC["argument_spec"].items()}
    return RuntimeCapability(host, {**defaults, "name": "containerd", **params})


def planned(host: t.Any, **params: t.Any) -> Plan:
    """Return what would be done."""
    one = capability(host, **params)
    return one.plan(one.observe())


def converge(host: t.Any, **params: t.Any) -> t.List[str]:
    """Do what the module does, and see that nothing is left; return the steps in words."""
    one = capability(host, **params)
    plan, done = one.plan(one.observe()), []
    while plan.steps:
        for step in plan.steps:
            one.apply(step)
            done.append(step.summary)
        more = plan.more
        plan = one.plan(one.observe())
        if plan.steps and not more:
            raise NodeError(f"this is left: {[step.summary for step in plan.steps]}")
    return done
