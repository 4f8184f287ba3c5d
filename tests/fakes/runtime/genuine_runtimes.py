# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine whose files lie below a folder, and whose containerd, dockerd and podman are genuine ones of Debian."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from nvsim import genuine

from tests.fakes.library.runtime_host import CONFIG, DAEMON, WRAPPER, capability, converge, planned

# Debian's releases: containerd 1.6; 1.7 with dockerd 26 and podman 5.4; 2.1 with dockerd 28 and podman 5.8.
# What the newest shows is short.
OLDEST, OLDER, NEWEST = "bookworm", "trixie", "forky"
every_suite = pytest.mark.parametrize(
    "suite", [*(pytest.param(one, marks=pytest.mark.long) for one in (OLDEST, OLDER)), NEWEST]
)
runs_containers = (
    pytest.mark.skipif(os.geteuid() != 0, reason="runs containers as root"),
    pytest.mark.skipif(
        shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin") is None, reason="needs runc"
    ),
)
with_cdi = pytest.mark.parametrize("suite", [pytest.param(OLDER, marks=pytest.mark.long), NEWEST])
CONF_D = "/etc/containerd/conf.d"
OWN = ("/etc", "/run", "/var")
# Libraries of a release's podman that other releases have not: the package, and the file.
LIBRARIES = {
    OLDER: (("libsubid5", "libsubid.so.5*"),),
    NEWEST: (
        ("libsubid6", "libsubid.so.6*"),
        ("libgpgme45", "libgpgme.so.45*"),
        ("libassuan9", "libassuan.so.9*"),
    ),
}
INSIDE = 'for one in etc run var; do mount --bind "$0/$one" "/$one" || exit 125; done; exec "$@"'

__all__ = ["CONFIG", "DAEMON", "WRAPPER", "capability", "converge", "planned"]


class GenuineRuntimes(Host):
    """A machine of a release of Debian; its runtimes read the machine's own /etc, /run and /var."""

    def __init__(self, root: Path, suite: str, files: dict[str, str] | None = None) -> None:
        super().__init__()
        self.then: Callable[[], None] = lambda: (
            None
        )  # what somebody else does once a file is written
        self.root, self.suite = root, suite
        for name in (*OWN, "/usr/bin"):
            (root / name[1:]).mkdir(parents=True, exist_ok=True)
        for path, text in (files or {}).items():
            self.put(path, text)
        self.programs = {"containerd": genuine.program("containerd", "containerd", suite)}
        self.answers: dict[str, str] = {"systemctl": "ActiveState=active\n"}

    # --- what a module does ---

    def run(self, argv, **values):  # type: ignore[no-untyped-def]
        name = str(argv[0])
        if name in self.answers:
            return Completed(0, self.answers[name], "")
        if name in self.programs:
            program = self.programs[name]
            path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}  # of docker-proxy
            return super().run([*self.inside(), str(program), *argv[1:]], **{**values, "env": path})
        return super().run(argv, **values)

    def inside(self) -> list[str]:
        """Return the beginning of a command that has the machine's own files."""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        return ["unshare", *user, "--mount", "sh", "-c", INSIDE, str(self.root)]

    def which(self, name: str) -> str | None:
        if name in self.programs or name in self.answers:
            return name if name.startswith("/") else f"/usr/bin/{name}"
        return super().which(name) if name in ("unshare", "nsenter") else None

    def at(self, path: str) -> str:
        return path if not path or path.startswith(f"{self.root}/") else f"{self.root}{path}"

    def read_bytes(self, path: str) -> bytes | None:
        return super().read_bytes(self.at(path))

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        saved = super().write(self.at(path), text, **values)
        if path.startswith("/etc/"):
            self.then()
        return saved

    def listdir(self, path: str) -> list[str]:
        return super().listdir(self.at(path))

    def exists(self, path: str) -> bool:
        return super().exists(self.at(path))

    def readlink(self, path: str) -> str | None:
        return super().readlink(self.at(path))

    def symlink(self, target: str, path: str) -> None:
        super().symlink(target, self.at(path))

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        super().makedirs(self.at(path), mode)

    def remove(self, path: str) -> bool:
        return super().remove(self.at(path))

    def ask(self, socket: str, target: str, *, timeout: float = 10):  # type: ignore[no-untyped-def]
        return super().ask(self.at(socket), target, timeout=timeout)

    # --- what a person does ---

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "surrogateescape"))

    def install_toolkit(self) -> None:
        """Have NVIDIA's runtime, in a version without holes."""
        self.put(WRAPPER, "")
        self.answers[WRAPPER] = "NVIDIA Container Runtime version 1.20.0\n"

    def install_docker(self) -> None:
        """Have the release's dockerd."""
        self.programs["dockerd"] = genuine.program("docker.io", "dockerd", self.suite)

    def install_podman(self) -> None:
        """Have the release's podman, on the C library of that release."""
        loader = genuine.program("libc6", "ld-linux-x86-64.so.2", self.suite)
        files = [genuine.program(*library, self.suite) for library in LIBRARIES[self.suite]]
        own = [*dict.fromkeys(str(path.parent) for path in (loader, *files))]
        folders = ":".join([*own, "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"])
        program = genuine.program("podman", "podman", self.suite)
        script = f'#!/bin/sh\nexec {loader} --library-path {folders} {program} "$@"\n'
        self.put("/tools/podman", script)
        self.programs["podman"] = self.root / "tools/podman"
        self.programs["podman"].chmod(0o755)

    # --- what is there ---

    def files(self) -> dict[str, str]:
        """Return all files but what the module remembers."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path)[len(str(self.root)) :]
            if path.is_file() and not name.startswith(("/run/gpu-node/", "/var/lib/gpu-node/")):
                found[name] = path.read_bytes().decode("utf-8", "surrogateescape")
        return found

    def dump(self, *path: str) -> dict[str, Any]:
        """Return what containerd makes of its files."""
        words = ["--config", *path] if path else []
        return tomllib.loads(self.run(["containerd", *words, "config", "dump"]).out)

    def cri(self, *path: str) -> dict[str, Any]:
        """Return the section of the CRI plugin in effect."""
        found = self.dump(*path)
        names = {2: "io.containerd.grpc.v1.cri"}
        section: dict[str, Any] = found["plugins"][
            names.get(found["version"], "io.containerd.cri.v1.runtime")
        ]
        return section

    def runtime(self, name: str) -> dict[str, Any]:
        """Return a runtime of containerd, in effect."""
        found: dict[str, Any] = self.cri()["containerd"]["runtimes"][name]
        return found
