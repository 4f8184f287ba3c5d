# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container runtimes on a node: which there are, and Docker and podman."""

from __future__ import annotations

import fnmatch
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..._machine.units import properties
from ..edits import lookup
from ..start_command import with_flags
from ..state import (
    DOCKER,
    DOCKER_CHECKS,
    PODMAN,
    PODMAN_CONFIG,
    PODMAN_FOLDERS,
    RuntimeOptions,
    RuntimeView,
    Version,
    docker,
    docker_info,
    has_cdi,
    podman,
    podman_defaults,
)
from . import engine, kubelet, toml
from .containerd import Containerd, K0s, K3s, MicroK8s, Rke2
from .crio import Crio
from .engine import Runtime, Texts

SOCKET = "/var/run/docker.sock"
PODMAN_VENDOR = "/usr/share/containers/containers.conf"


class Docker(Runtime):
    """Docker's daemon."""

    kind = DOCKER

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        version, keys = self._version(), self.kind.keys
        cdi = has_cdi(self.kind, version, options)
        effective = self._read(self._host.read(path), path, version)
        return RuntimeView(
            version,
            path,
            prefix=keys.prefix,
            effective=effective,
            settings=tuple(keys.settings(effective, options, cdi)) if options.mode else (),
            warnings=self.about_program(effective, options),
        )

    def _read(self, text: t.Optional[str], path: str, version: Version) -> t.Mapping[str, t.Any]:
        return docker(self.parse(text or "", path), version, self.commands().running)

    def ended(self, path: str) -> t.Tuple[str, ...]:
        # It is the daemon that ends them: what it does is what it was started or reloaded with.
        if properties(self._host, self.unit, "ActiveState").get("ActiveState") != "active":
            return ()
        info, containers = self._ask("/info", path), self._ask("/containers/json", path)
        if not isinstance(info, dict) or not isinstance(containers, list):
            return ("containers that are not known, as docker does not answer",)
        if info.get("LiveRestoreEnabled") is True:
            return ()
        names = (
            container.get("Names") or [container.get("Id", "?")[: engine.SHORT]]
            for container in containers
        )
        return tuple(str(name[0]).lstrip("/") for name in names)

    def _ask(self, target: str, path: str) -> t.Any:
        config = self.parse(self._host.read(path) or "", path)
        flags = self.commands().running.settings(self.kind.start.flags)
        hosts = with_flags(config, flags).get("hosts")
        for host in hosts if isinstance(hosts, list) else ():
            if isinstance(host, str) and host.startswith("unix://"):
                return self._host.ask(host[len("unix://") :], target)
        return self._host.ask(SOCKET, target)

    def running(self, path: str) -> t.Optional[t.Mapping[str, t.Any]]:
        return docker_info(self._ask("/info", path))

    def check_running(self, view: RuntimeView, after: t.Mapping[str, t.Any]) -> None:
        there, stays = (config.get("runtimes") or {} for config in (view.effective, after))
        gone, path = there.keys() - stays.keys(), self.path()
        listed = self._ask("/containers/json", path) or [] if gone else []
        targets = (f"/containers/{container.get('Id')}/json" for container in listed)
        containers = [self._ask(target, path) or {} for target in targets]
        key = ("HostConfig", "Runtime")
        using = [container for container in containers if lookup(container, key) in gone]
        if using:
            names = sorted(str(container.get("Name", "?")).lstrip("/") for container in using)
            raise engine.would_lose(
                f"docker could not start {engine.listed(names)} again",
                f"they were made with the runtime {', '.join(sorted(gone))}, which would be gone",
                "make them again with --device nvidia.com/gpu=..., then run again",
            )

    def trial(self, view: RuntimeView, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        text = texts[path]
        if text is not None and view.version >= DOCKER_CHECKS:
            folder = engine.trial_folder()
            name = f"{folder}/daemon.json"
            with self._trial(folder, {name: text}, {path: name}):
                self._validate(name)
        return self._read(text, path, view.version)

    def check_next_start(self, view: RuntimeView, path: str) -> None:
        args = self.kind.start.trial_args(self.commands().next_start)
        if not args or view.version < DOCKER_CHECKS or self._host.read(path) is None:
            return
        try:
            self._validate(path)
        except NodeError as error:
            files = " or ".join([path, *self.commands().files])
            message = f"{self.unit} would not start again"
            hint = f"fix what it names in {files}, then run again"
            raise NodeError(message, cause=error.cause, hint=hint) from error

    def _validate(self, path: str) -> None:
        for command in self.commands().both():
            args = self.kind.start.trial_args(command)
            self._host.run([self.kind.program, "--validate", *args, "--config-file", path])


class Podman(Runtime):
    """podman, which has no daemon and reads CDI specifications by itself."""

    kind = PODMAN

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        version = self._version()
        has_cdi(self.kind, version, options)
        folders, file = self._folders() if version >= PODMAN_FOLDERS else ((), "")
        folders = folders or podman_defaults(version)
        warnings = podman(options, version, folders, file)
        return RuntimeView(version, effective={"cdi_spec_dirs": [*folders]}, warnings=warnings)

    def _folders(self) -> t.Tuple[t.Tuple[str, ...], str]:
        """Return the folders of specifications as podman merges its files, and the last file that sets them.

        A later file replaces the list, unless it says that it appends to it: containers.conf(5).
        """
        names = fnmatch.filter(self._host.listdir(f"{PODMAN_CONFIG}.d"), "*.conf")
        folders: t.List[str] = []
        last = ""
        for path in (
            PODMAN_VENDOR,
            PODMAN_CONFIG,
            *(f"{PODMAN_CONFIG}.d/{name}" for name in names),
        ):
            config = toml.parse(self._host.read(path) or "", path)
            value = lookup(config, ("engine", "cdi_spec_dirs"))
            if isinstance(value, list):
                appends = {"append": True} in value
                own = [folder for folder in value if isinstance(folder, str)]
                folders, last = [*folders, *own] if appends else own, path
        return tuple(folders), last


KINDS: t.Tuple[t.Type[Runtime], ...] = (Containerd, Docker, Crio, Podman, K3s, Rke2, K0s, MicroK8s)
NAMES = tuple(runtime.kind.name for runtime in KINDS)


def installed(host: Host, name: str = "auto") -> t.List[Runtime]:
    """Return the runtime of a name, or with auto all, where its program is on the node."""
    kinds = [make for make in KINDS if name in ("auto", make.kind.name)]
    return [make(host) for make in kinds if host.which(make.kind.program) is not None]


def choose(host: Host, name: str) -> t.List[Runtime]:
    """Return the runtime of a name, or with auto all that are in use on the node."""
    there = installed(host, name)
    if not there:
        message = f"{name} is not installed"
        message = "no container runtime is installed" if name == "auto" else message
        other = [runtime.kind.name for runtime in installed(host)]
        endpoint = kubelet.endpoint(host)
        cause = f"the node has {' and '.join(other)}" if other else ""
        if endpoint and not other:
            cause = (
                f"the kubelet uses {endpoint}, which is none of the runtimes that gpu.node knows"
            )
        hint = "install it, as for any Kubernetes node"
        if other:
            hint = f"set container_runtime_name to {' or '.join(other)}, or install {name}"
        raise NodeError(message, cause=cause, hint=hint)
    if name == "auto":
        names = {runtime.kind.name for runtime in there}
        there = [runtime for runtime in there if not runtime.left_out(names)]
    return there
