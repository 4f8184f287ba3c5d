# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the configuration of a container runtime must have, whichever it is."""

from __future__ import annotations

import json
import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.text.shown import cut
from .edits import Change, Path, find, lookup
from .start_command import LIST, NO_COMMAND, PROGRAMS, SWITCHES, Flag, StartCommand, with_flags

CDI = "cdi"
DEFAULT_RUNTIME = "default_runtime"
MODES = (CDI, "runtime_class", DEFAULT_RUNTIME)

HANDLER = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")  # as in a RuntimeClass
# Names that runtimes have for what starts containers that name no handler.
RESERVED = ("runc", "crun", "default")
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
Version = t.Tuple[int, ...]


class Unfit(NodeError):
    """A runtime that cannot do what is wanted of it."""


class RuntimeOptions(t.NamedTuple):
    """How GPUs are to reach containers; without a mode, they are not.

    ``instead`` is the runtime that was the default one before the handler.
    """

    mode: str = CDI
    handler: str = "nvidia"
    runtime_path: str = "/usr/bin/nvidia-container-runtime"
    spec_dirs: t.Tuple[str, ...] = SPEC_DIRS
    instead: str = ""


class RuntimeKeys(t.NamedTuple):
    """The keys of a runtime's configuration, all below ``prefix``.

    ``types`` are what keys must be; ``on`` is what turns CDI on; ``handler`` is the key of a handler that has its
    program, ``other`` those that a handler of another kind has. ``live`` are the keys that the running daemon takes
    over on a reload; all others take a restart.
    """

    types: t.Tuple[t.Tuple[Path, type], ...] = ()
    on: t.Tuple[Change, ...] = ()
    spec_dirs: Path = ()
    handler: str = ""
    other: t.Tuple[str, ...] = ()
    default: Path = ()
    prefix: Path = ()
    live: t.Tuple[Path, ...] = ()

    def settings(
        self,
        effective: t.Mapping[str, t.Any],
        options: RuntimeOptions,
        cdi: bool,
        handler: t.Optional[t.Iterable[Change]] = None,
    ) -> t.List[Change]:
        """Return what the effective configuration must have; ``handler`` where a program is not all of it."""
        settings: t.List[Change] = []
        if cdi:
            value = lookup(effective, self.spec_dirs)
            folders = value if isinstance(value, list) else []
            missing = [folder for folder in options.spec_dirs if folder not in folders]
            settings += [*self.on, (self.spec_dirs, [*folders, *missing])]
        if options.mode != CDI:
            at = ("runtimes", options.handler)
            program = (*at, self.handler), options.runtime_path
            own = [program, *(((*at, key), None) for key in self.other)]
            settings += own if handler is None else handler
        if options.mode == DEFAULT_RUNTIME:
            settings.append((self.default, options.handler))
        return settings


class RuntimeStart(t.NamedTuple):
    """The command line of a runtime.

    The flags ``file`` and ``folder`` choose what the program reads, ``flags`` set keys, and so do environment
    variables that begin with ``variables``.
    """

    file: t.Optional[Flag] = None
    folder: t.Optional[Flag] = None
    flags: t.Tuple[Flag, ...] = ()
    variables: str = ""

    def trial_args(self, command: StartCommand) -> t.List[str]:
        """Return the arguments that a trial takes over: all but the files that are read."""
        return command.without([self.file, self.folder])


class RuntimeKind(t.NamedTuple):
    """A kind of runtime: its program, units (one of them runs on a node) and file, and its first version with CDI.

    ``newer`` tells where such a version is to be had, ``socket`` is where it serves the kubelet, unless its flag or
    file has another place.
    """

    name: str
    program: str
    units: t.Tuple[str, ...]
    config_path: str
    minimum: Version
    keys: RuntimeKeys = RuntimeKeys()
    start: RuntimeStart = RuntimeStart()
    toml: bool = True
    newer: str = ""
    socket: str = ""


class RuntimeView(t.NamedTuple):
    """A runtime as it is, and what it must have.

    ``file`` is the one to edit, ``fresh`` what a file without keys begins with; ``loaded`` are all
    files that the runtime reads. ``effective`` is what it makes of them, from ``prefix`` on;
    ``settings`` are what it must have, from there too. None as a value: the key is not to be there.
    """

    version: Version
    file: str = ""
    fresh: str = ""
    prefix: Path = ()
    effective: t.Mapping[str, t.Any] = {}
    settings: t.Tuple[Change, ...] = ()
    warnings: t.Tuple[str, ...] = ()
    loaded: t.Tuple[str, ...] = ()

    def changes(self) -> t.List[Change]:
        """Return what the runtime lacks, as changes of the file."""
        return [((*self.prefix, *path), value) for path, value in self.lacking(self.effective)]

    def lacking(self, effective: t.Mapping[str, t.Any]) -> t.List[Change]:
        """Return the settings that a configuration does not have."""
        return [(path, value) for path, value in self.settings if lookup(effective, path) != value]

    def is_in_effect(self, running: t.Optional[t.Mapping[str, t.Any]]) -> bool:
        """Return whether a running program says that it has all settings; one that does not answer says nothing."""
        return running is not None and not self.lacking(running)

    def lacking_in_effect(self, running: t.Optional[t.Mapping[str, t.Any]]) -> t.List[Change]:
        """Return the settings that a running program says it has otherwise; what it says nothing of is left out."""
        answer, lacking = running or {}, []
        for path, value in self.lacking(answer):
            values, depth = find(answer, path)
            # A list of handlers that lacks one says so.
            if values or path[:depth][-1:] == ("runtimes",):
                lacking.append((path, value))
        return lacking


DOCKER = RuntimeKind(
    "docker",
    "dockerd",
    ("docker.service",),
    "/etc/docker/daemon.json",
    (25,),
    keys=RuntimeKeys(
        types=((("features",), dict), (("runtimes",), dict), (("cdi-spec-dirs",), list)),
        on=((("features", "cdi"), True),),
        spec_dirs=("cdi-spec-dirs",),
        handler="path",
        other=("runtimeType", "options"),  # dockerd starts with neither beside a path
        default=("default-runtime",),
        # On SIGHUP, and provided that they have a value: that a key is gone goes unnoticed.
        live=(("runtimes",), ("default-runtime",)),
    ),
    start=RuntimeStart(
        file=Flag(("config-file",)),
        flags=(
            Flag(("default-runtime",), ("default-runtime",)),
            Flag(("cdi-spec-dir",), ("cdi-spec-dirs",), LIST),
            Flag(("feature",), ("features",), SWITCHES),
            Flag(("add-runtime",), ("runtimes",), PROGRAMS),
            Flag(("host", "H"), ("hosts",), LIST),
        ),
    ),
    toml=False,
    socket="/run/cri-dockerd.sock",
)
DOCKER_CHECKS = (23,)  # from it on, dockerd has --validate
CRIO = RuntimeKind(  # CDI itself is always on
    "cri-o",
    "crio",
    ("crio.service",),
    "/etc/crio/crio.conf.d/zz-gpu-node.conf",  # a later file replaces the entry of a runtime
    (1, 23),
    keys=RuntimeKeys(
        types=((("crio",), dict), (("crio", "runtime"), dict)),
        spec_dirs=("cdi_spec_dirs",),
        handler="runtime_path",
        default=("default_runtime",),
        prefix=("crio", "runtime"),
    ),
    start=RuntimeStart(
        file=Flag(("config", "c"), variable="CONTAINER_CONFIG"),
        folder=Flag(("config-dir", "d"), variable="CONTAINER_CONFIG_DIR"),
        flags=(
            Flag(("default-runtime",), ("default_runtime",), variable="CONTAINER_DEFAULT_RUNTIME"),
            Flag(("cdi-spec-dirs",), ("cdi_spec_dirs",), LIST, variable="CONTAINER_CDI_SPEC_DIRS"),
        ),
        variables="CONTAINER_",
    ),
    socket="/run/crio/crio.sock",
)
PODMAN = RuntimeKind(
    "podman", "podman", (), "", (4, 1), RuntimeKeys(spec_dirs=("cdi_spec_dirs",)), toml=False
)
PODMAN_CONFIG = "/etc/containers/containers.conf"
PODMAN_FOLDERS = (5, 5)  # from it on, podman reads cdi_spec_dirs


def check_options(options: RuntimeOptions, config_path: t.Optional[str]) -> None:
    """Refuse options that are not valid.

    Raises:
        InputError: if one is not; it names the option.
    """
    if not HANDLER.fullmatch(options.handler):
        expected = (
            "up to 63 lower-case letters, digits and hyphens, as the handler of a RuntimeClass"
        )
        raise InputError.of("handler", options.handler, expected)
    if options.handler in RESERVED:
        expected = "a name of its own: containers that ask for nothing use this one"
        raise InputError.of("handler", options.handler, expected)
    paths = [("handler_path", options.runtime_path), ("config_path", config_path or "/")]
    for key, path in paths + [("spec_dirs", spec_dir) for spec_dir in options.spec_dirs]:
        if not path.startswith("/"):
            raise InputError.of(key, path, "an absolute path")


def parse_version(text: str, program: str) -> Version:
    """Return the version that a program reports."""
    match = re.search(r"\bv?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    if match is None:
        cause = cut(text.strip()) or "no output"
        raise NodeError(f"{program} did not report its version", cause=cause)
    return tuple(int(part) for part in match.groups())


def version_text(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def has_cdi(kind: RuntimeKind, version: Version, options: RuntimeOptions) -> bool:
    """Return whether a runtime supports CDI; refuse one that does not if the mode needs it."""
    if version >= kind.minimum:
        return True
    if options.mode == CDI:
        message = f"{kind.name} {version_text(version)} does not support CDI"
        cause = f"that came with {kind.name} {version_text(kind.minimum)}"
        raise Unfit(message, cause=cause, hint=f"upgrade {kind.name}{kind.newer}")
    return False


TYPES = {int: "a whole number", list: "a list"}


def check_types(
    kind: RuntimeKind, config: t.Mapping[str, t.Any], place: t.Callable[[Path], str]
) -> None:
    """Refuse a file with values that the runtime does not accept; ``place`` returns where in it a key is."""
    for path, expected in kind.keys.types:
        values, _depth = find(config, path)
        if values and (not isinstance(values[0], expected) or isinstance(values[0], bool)):
            value = cut(json.dumps(values[0], default=str))
            table = "a table" if kind.toml else "an object"
            message = f"{place(path)}: {'.'.join(path)}: {value} is not valid"
            cause = f"expected {TYPES.get(expected, table)}"
            raise NodeError(message, cause=cause, hint="fix the file; it was left as it is")


def describe(changes: t.Iterable[Change]) -> str:
    """Return changes as text."""
    texts = []
    for path, value in changes:
        text = str(value).lower() if isinstance(value, bool) else value
        texts.append(f"no {path[-1]}" if value is None else f"{path[-1]} = {text}")
    return ", ".join(texts)


def about_default(default: t.Any, options: RuntimeOptions) -> t.Tuple[str, ...]:
    """Return the warning about a default runtime that gives all containers what only some ask for."""
    if default != options.handler or options.mode in ("", DEFAULT_RUNTIME):
        return ()
    return (
        f"{options.handler} is the default runtime: containers that ask for no GPU may see all of them. "
        "Next step: make another one the default",
    )


def docker(
    config: t.Mapping[str, t.Any], version: Version, command: StartCommand = NO_COMMAND
) -> t.Dict[str, t.Any]:
    """Return Docker's configuration with its flags and the defaults that matter here."""
    config = with_flags(config, command.settings(DOCKER.start.flags))
    features = {"cdi": version >= (28, 2), **(config.get("features") or {})}
    return {"cdi-spec-dirs": list(SPEC_DIRS), **config, "features": features}


def docker_info(info: t.Any) -> t.Optional[t.Dict[str, t.Any]]:
    """Return what dockerd's answer to /info says of its configuration, None if it is no such answer.

    ``CDISpecDirs`` is empty while CDI is off, and only there from the release on that has CDI.
    """
    if not isinstance(info, dict) or not isinstance(info.get("CDISpecDirs", []), list):
        return None
    config: t.Dict[str, t.Any] = {}
    if info.get("CDISpecDirs") is not None:
        config["features"] = {"cdi": bool(info["CDISpecDirs"])}
        config["cdi-spec-dirs"] = info["CDISpecDirs"]
    if isinstance(info.get("DefaultRuntime"), str):
        config["default-runtime"] = info["DefaultRuntime"]
    if isinstance(info.get("Runtimes"), dict):
        config["runtimes"] = info["Runtimes"]
    return config


def podman_defaults(version: Version) -> t.Tuple[str, ...]:
    """Return where a podman looks for specifications if nobody has set it (containers/podman#26569)."""
    return SPEC_DIRS[:1] if (5, 5) <= version < (5, 5, 2) else SPEC_DIRS


def podman(
    options: RuntimeOptions, version: Version, folders: t.Sequence[str], file: str
) -> t.Tuple[str, ...]:
    """Return the warning about folders that podman does not look into; refuse what its command line is for.

    Args:
        options: How GPUs are to reach containers.
        version: podman's.
        folders: Where it looks for specifications.
        file: The file that has set that. Empty if none has.
    """
    if options.mode not in ("", CDI):
        raise InputError.of("mode", options.mode, "cdi for podman; --runtime names another runtime")
    lacking = [folder for folder in options.spec_dirs if folder not in folders]
    if not lacking:
        return ()
    whole = json.dumps([*folders, *lacking])
    step = f"set cdi_spec_dirs = {whole} in [engine] of {file or PODMAN_CONFIG}"
    if version < PODMAN_FOLDERS:
        release = version_text(PODMAN_FOLDERS)
        step = f"write the specification to {folders[0]} (cdi_path), or upgrade podman to {release} or later"
    return (
        f"podman {version_text(version)} reads no CDI specifications in {', '.join(lacking)}. Next step: {step}",
    )
