# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers make of the GPUs: NVML in one of each runtime, and a kernel that adds two vectors.

And what a container is made of that has the machine's own Python, and the GPUs by a CDI specification.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..._base.errors import NodeError
from ..._base.text.json_data import rows, table_in
from ..._base.text.shown import cut
from ..._cdi.specification import KIND
from .check import Check, judged, skipped
from .daemon import Share

HOST = "/host"  # where the machine's folders are in it
ALL = f"{KIND}=all"
# Where images have libraries: what the specification mounts comes before what the machine has.
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
Spec = t.Mapping[str, t.Any]

CUDA = "CUDA"


class NotTried(NodeError):
    """No container can be started, which says nothing of the runtime."""


class Answer(t.NamedTuple):
    """What the program said that asks the driver, in a container or beside one.

    ``problem`` is why NVML does not answer it, ``uuids`` the GPUs that it sees; ``cuda`` says how the sum of two
    vectors went: None where it was not tried, for the reason in ``untried``, and empty where it came out right.
    ``unknown`` is why the program was not started.
    """

    uuids: t.Tuple[str, ...] = ()
    problem: str = ""
    cuda: t.Optional[str] = None
    untried: str = ""
    unknown: str = ""


class ContainerState(t.NamedTuple):
    """The answers of containers: by the names of runtimes whether they read the CDI specification, and the driver's.

    ``answers`` has what the driver says in a container of each runtime, ``beside`` on the node itself, and ``client``
    with a share of MPS. ``cuda_unknown`` is why CUDA was not tried, ``unreached`` why no device that the device plugin
    gives out reaches a container.
    """

    runtimes: t.Mapping[str, Check] = {}
    answers: t.Mapping[str, Answer] = {}
    beside: t.Optional[Answer] = None
    client: t.Optional[Answer] = None
    cuda_unknown: str = ""
    unreached: t.Optional[NodeError] = None


def answer(out: str, err: str, rc: int) -> Answer:
    """Read what the program printed; where it printed nothing, say what the runtime said instead."""
    lines = [line for line in out.splitlines() if line.startswith("{")]
    report = table_in(lines[-1] if lines else "")
    if not report:
        output = [line for line in (*out.splitlines(), *err.splitlines()) if line.strip()]
        return Answer(problem=cut(output[-1].strip()) if output else f"it ended with status {rc}")
    cuda = report.get("cuda")
    uuids = tuple(map(str, rows(report.get("uuids"))))
    problem = cut(str(report.get("problem") or ""))
    sums = cut(cuda) if isinstance(cuda, str) else None
    return Answer(uuids, problem, sums, str(report.get("untried") or ""))


def container(runtime: str, answer: Answer, gpus: t.Sequence[str]) -> Check:
    """Check that a runtime's container was started, and that NVML in it has all GPUs of the node."""
    name = f"{runtime}: container"
    if answer.unknown:
        return skipped(name, answer.unknown)
    step = f"see the log of {runtime}; the role gpu.node.cdi regenerates the specification"
    if answer.problem:
        return judged(name, f"a container does not open the GPUs: {answer.problem}", step)
    missing = sorted(set(gpus) - set(answer.uuids))
    cause = f"a container with all GPUs does not see {', '.join(missing)}" if missing else ""
    return judged(name, cause, step)


def cuda(answers: t.Mapping[str, Answer], unknown: str) -> Check:
    """Check that a kernel ran, by the answers from where it may have; ``unknown`` says why it was not tried."""
    for where, answer in answers.items():
        if answer.cuda is not None:
            cause = f"the sum of two vectors failed {where}: {answer.cuda}" if answer.cuda else ""
            return judged(CUDA, cause, "see the kernel's log for XIDs (journalctl -k -g Xid)")
    untried = [answer.untried for answer in answers.values()][-1:]
    return skipped(CUDA, "".join(untried) or unknown or "it was not tried")


class Python(t.NamedTuple):
    """The machine's Python: program, prefix, its loader, and the folders of the libraries that it uses."""

    program: str
    prefix: str
    loader: str
    libraries: t.Tuple[str, ...]

    @property
    def folders(self) -> t.List[str]:
        """Return the folders that have all of it, none of them within another."""
        names = [
            self.prefix,
            *(posixpath.dirname(folder) for folder in (self.program, self.loader)),
        ]
        folders: t.List[str] = []
        for folder in sorted({*names, *self.libraries}):
            if not any(f"{folder}/".startswith(f"{other.rstrip('/')}/") for other in folders):
                folders.append(folder)
        return folders

    def command(self, source: str, *args: str) -> t.List[str]:
        """Return the words that run a program's source in a container: by the loader, as its root has none."""
        libraries = ":".join([*LIBRARIES, *(HOST + library for library in self.libraries)])
        python = [HOST + self.loader, "--library-path", libraries, HOST + self.program]
        return [*python, "-S", "-s", "-B", "-c", source, *args]

    @property
    def environment(self) -> t.Dict[str, str]:
        """Return the variables that it needs to find itself there."""
        return {"PYTHONHOME": HOST + self.prefix}


def python(program: str, prefix: str, maps: str) -> t.Optional[Python]:
    """Return a Python from what the kernel has mapped of it; None where its loader is not glibc's."""
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}
    files = sorted(
        path for path in paths if path.startswith("/") and ".so" in posixpath.basename(path)
    )
    loaders = [file for file in files if posixpath.basename(file).startswith(("ld-linux", "ld-2."))]
    if not loaders:
        return None
    folders = dict.fromkeys(posixpath.dirname(file) for file in files if "nvidia" not in file)
    return Python(program, prefix, loaders[0], tuple(folders))


class Device(t.NamedTuple):
    """A device node by the kernel's numbers."""

    major: int
    minor: int


def edits(spec: Spec) -> t.List[Spec]:
    """Return what a specification gives a container that asks for all devices.

    Raises:
        ValueError: if there is no device of that name.
    """
    for device in spec["devices"]:
        if device["name"] == "all":
            return [spec.get("containerEdits", {}), device["containerEdits"]]
    raise ValueError("it has no device named all")


def nodes(edits: t.Sequence[Spec]) -> t.Dict[str, str]:
    """Return the device nodes of edits, the machine's path by the container's."""
    nodes = [node for edit in edits for node in edit.get("deviceNodes", ())]
    return {str(edit["path"]): str(edit.get("hostPath") or edit["path"]) for edit in nodes}


def variables(python_on: Python, share: t.Optional[Share]) -> t.Dict[str, str]:
    """Return the environment of a container with the machine's Python, and with a share of MPS if there is one."""
    return {**python_on.environment, **(share.env if share else {})}


def config(
    root: str,
    command: t.Sequence[str],
    python_on: Python,
    specs: t.Sequence[Spec],
    devices: t.Mapping[str, Device],
    share: t.Optional[Share] = None,
) -> t.Dict[str, t.Any]:
    """Return the OCI configuration of a container with edits, and with a share of MPS where there is one.

    ``devices`` are its nodes, by their paths.
    """
    hooks: t.Dict[str, t.List[t.Any]] = {}
    for entry in (hook for each in specs for hook in each.get("hooks", ())):
        hooks.setdefault(entry["hookName"], []).append(
            {key: entry[key] for key in ("path", "args", "env", "timeout") if key in entry}
        )
    env = [text for each in specs for text in each.get("env", ())]
    env += [f"{name}={text}" for name, text in variables(python_on, share).items()]
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
            *_binds(python_on, specs, share),
        ],
        "hooks": hooks,
        "linux": {
            "namespaces": [{"type": entry} for entry in ("mount", "pid", "ipc", "uts", "network")],
            "devices": [
                {"path": path, "type": "c", **device._asdict(), "fileMode": 0o666}
                for path, device in devices.items()
            ],
            "resources": {
                "devices": [
                    {"allow": False, "access": "rwm"},
                    *(
                        {"allow": True, "type": "c", **entry._asdict(), "access": "rwm"}
                        for entry in devices.values()
                    ),
                ]
            },
        },
    }


def _binds(
    python_on: Python, specs: t.Sequence[Spec], share: t.Optional[Share]
) -> t.Iterator[t.Dict[str, t.Any]]:
    """Yield the mounts of the machine's Python, of the edits, and of a share."""
    for folder in python_on.folders:
        yield _bind(folder, HOST + folder, ["rbind", "ro"])
    for entry in (mount for each in specs for mount in each.get("mounts", ())):
        options = entry.get("options") or ["ro", "rbind"]
        yield _bind(entry["hostPath"], entry["containerPath"], options)
    for mount in share.mounts if share else ():
        access = "ro" if mount.read_only else "rw"
        yield _bind(mount.outside, mount.inside, ["rbind", access])


def _bind(source: str, target: str, options: t.Sequence[str]) -> t.Dict[str, t.Any]:
    return {"source": source, "destination": target, "type": "bind", "options": [*options]}
