# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a container is made of that has the machine's own Python, and the GPUs by a CDI specification."""

from __future__ import annotations

import posixpath
import typing as t

from ..._cdi.specification import KIND

HOST = "/host"  # where the machine's folders are in it
ALL = f"{KIND}=all"
# Where images have libraries: what the specification mounts comes before what the machine has.
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
Spec = t.Mapping[str, t.Any]


class Python(t.NamedTuple):
    """The machine's Python: program, prefix, its loader, and the folders of the libraries that it uses."""

    program: str
    prefix: str
    loader: str
    libraries: t.Tuple[str, ...]

    @property
    def folders(self) -> t.List[str]:
        """Return the folders that have all of it, none of them within another."""
        names = [self.prefix, *(posixpath.dirname(one) for one in (self.program, self.loader))]
        found: t.List[str] = []
        for one in sorted({*names, *self.libraries}):
            if not any(f"{one}/".startswith(f"{other.rstrip('/')}/") for other in found):
                found.append(one)
        return found

    def command(self, source: str, *words: str) -> t.List[str]:
        """Return the words that run a program's source in a container: by the loader, as its root has none."""
        libraries = ":".join([*LIBRARIES, *(HOST + one for one in self.libraries)])
        python = [HOST + self.loader, "--library-path", libraries, HOST + self.program]
        return [*python, "-S", "-s", "-B", "-c", source, *words]

    @property
    def environment(self) -> t.Dict[str, str]:
        """Return the variables that it needs to find itself there."""
        return {"PYTHONHOME": HOST + self.prefix}


def python(program: str, prefix: str, maps: str) -> t.Optional[Python]:
    """Return a Python from what the kernel has mapped of it; None where its loader is not glibc's."""
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}
    files = sorted(one for one in paths if one.startswith("/") and ".so" in posixpath.basename(one))
    loaders = [one for one in files if posixpath.basename(one).startswith(("ld-linux", "ld-2."))]
    if not loaders:
        return None
    folders = dict.fromkeys(posixpath.dirname(one) for one in files if "nvidia" not in one)
    return Python(program, prefix, loaders[0], tuple(folders))


class Device(t.NamedTuple):
    """A device node by the kernel's numbers."""

    major: int
    minor: int


def edits(spec: Spec) -> t.List[Spec]:
    """Return what a specification gives a container that asks for all devices. ValueError: it has no such name."""
    for one in spec["devices"]:
        if one["name"] == "all":
            return [spec.get("containerEdits", {}), one["containerEdits"]]
    raise ValueError("it has no device named all")


def nodes(given: t.Sequence[Spec]) -> t.Dict[str, str]:
    """Return the device nodes of edits, the machine's path by the container's."""
    found = [node for one in given for node in one.get("deviceNodes", ())]
    return {str(one["path"]): str(one.get("hostPath") or one["path"]) for one in found}


def config(
    root: str,
    command: t.Sequence[str],
    python_on: Python,
    given: t.Sequence[Spec],
    devices: t.Mapping[str, Device],
) -> t.Dict[str, t.Any]:
    """Return the OCI configuration of a container with edits; ``devices`` are its nodes, by their paths."""
    mounts = [one for each in given for one in each.get("mounts", ())]
    binds = [_bind(one, HOST + one, ["rbind", "ro"]) for one in python_on.folders]
    binds += [
        _bind(one["hostPath"], one["containerPath"], one.get("options") or ["ro", "rbind"])
        for one in mounts
    ]
    hooks: t.Dict[str, t.List[t.Any]] = {}
    for one in (hook for each in given for hook in each.get("hooks", ())):
        hooks.setdefault(one["hookName"], []).append(
            {key: one[key] for key in ("path", "args", "env", "timeout") if key in one}
        )
    env = [text for each in given for text in each.get("env", ())]
    env += [f"{name}={text}" for name, text in python_on.environment.items()]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [*command],
            "env": env,
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": root},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "mode=755"],
            },
            *binds,
        ],
        "hooks": hooks,
        "linux": {
            "namespaces": [{"type": one} for one in ("mount", "pid", "ipc", "uts", "network")],
            "devices": [
                {"path": path, "type": "c", **one._asdict(), "fileMode": 0o666}
                for path, one in devices.items()
            ],
            "resources": {
                "devices": [
                    {"allow": False, "access": "rwm"},
                    *(
                        {"allow": True, "type": "c", **one._asdict(), "access": "rwm"}
                        for one in devices.values()
                    ),
                ]
            },
        },
    }


def _bind(source: str, target: str, options: t.Sequence[str]) -> t.Dict[str, t.Any]:
    return {"source": source, "destination": target, "type": "bind", "options": [*options]}
