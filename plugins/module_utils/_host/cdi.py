# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that a node should have, from what NVML and the driver's own files tell."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from .._core.cdi import specification as cdi
from .._core.cdi.boot import Options
from .._core.cdi.generated import NVIDIA_CTK, arguments, check_program, parse
from .._core.cdi.rules import HOOK_PROGRAMS, check
from .._core.gpu import CAPS_FOLDER, CONTROL_NODES, MIG_MINORS, Inventory, parse_minors
from .._core.toolkit.version import MINIMUM_TEXT, described, is_safe
from .api import Host

PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
SPEC_FOLDERS = ("/etc/cdi", "/var/run/cdi")
NVML_LIBRARY = "libnvidia-ml.so.1"


class Wanted(t.NamedTuple):
    """The specification that the node should have; an empty text where it has no device."""

    text: str = ""
    devices: t.Tuple[str, ...] = ()
    cdi_version: str = ""
    driver_version: str = ""
    hook: str = ""


class DriverFiles:
    """Looks below ``root``, where the driver's / is seen on the node; all paths start at that /."""

    def __init__(self, host: Host, root: str) -> None:
        self._host = host
        self.root = root.rstrip("/")
        self._cache: t.Optional[t.List[cdi.Pair]] = None

    def device_nodes(self) -> t.FrozenSet[str]:
        """Return NVIDIA's device nodes that exist."""
        found = []
        for folder in ("/dev", CAPS_FOLDER):
            names = self._host.listdir(self.root + folder)
            found += [f"{folder}/{name}" for name in names if name.startswith("nvidia")]
        return frozenset(found)

    def mig_minors(self) -> t.Dict[str, int]:
        """Return the capabilities' minors; /proc is the node's own where the root has none."""
        text = self._host.read(self.root + MIG_MINORS)
        return parse_minors(self._host.read(MIG_MINORS) or "" if text is None else text)

    def image_folders(self) -> t.Tuple[str, ...]:
        """Return the folders that libraries are mounted in for the loaders of images, the distribution's own first."""
        folders = cdi.search_folders(self._ldconfig())
        own = next((one for one in folders if self._host.listdir(self.root + one)), folders[0])
        return cdi.image_folders(own, aarch64=self._real(cdi.AARCH64_LOADER) is not None)

    def nvml_library(self) -> str:
        """Return the path of NVML on the node where it is not the node's own, else nothing."""
        if not self.root:
            return ""
        for folder in cdi.search_folders(self._ldconfig()):
            path = self._real(f"{folder}/{NVML_LIBRARY}")
            if path:
                return self.root + path
        return ""

    def read(self, version: str) -> cdi.Files:
        """Return the files of this version of the driver."""
        binaries: t.List[cdi.Pair] = []
        for name in cdi.BINARIES:
            for folder in PROGRAM_FOLDERS:
                path = self._real(f"{folder}/{name}")
                if path:
                    binaries.append((path, f"{folder}/{name}"))
                    break
        return cdi.Files(
            tuple(self._libraries(version)),
            tuple(binaries),
            tuple(path for path in cdi.SOCKETS if self._host.exists(self.root + path)),
        )

    def program(self, *names: str) -> t.Optional[t.Tuple[str, str]]:
        """Return the path of the first of some programs that the node has, and what it tells of its version."""
        for name in names:
            path = self._host.which(name)
            if path is not None:
                return path, self._host.run([path, "--version"], check=False).out
        return None

    def generate(self, argv: t.Sequence[str]) -> str:
        """Return what nvidia-ctk writes; what it has to say goes to its standard error."""
        return self._host.run(argv, timeout=60).out

    def open_folder(self, path: str) -> str:
        """Return a folder on the way to a path of the node that everybody may write to, if there is one.

        That the driver's root itself can be trusted is the word of whoever named it.
        """
        inside = path.startswith(f"{self.root}/")
        root, visited = (self.root, path[len(self.root) :]) if inside else ("", path)
        folders: t.List[str] = []

        def follow(one: str) -> t.Optional[str]:
            folders.append(root + posixpath.dirname(one))
            return self._host.readlink(root + one)

        end = cdi.resolve(visited, follow)
        for folder in dict.fromkeys([*folders, *([root + end] if end else [])]):
            found = self._host.status(folder or "/")
            if found and stat.S_ISDIR(found.mode) and found.mode & stat.S_IWOTH:
                return folder or "/"
        return ""

    def others(self, path: str) -> t.Dict[str, str]:
        """Return the text of all specifications of the node but one, by their paths."""
        found = [
            f"{folder}/{name}"
            for folder in dict.fromkeys((posixpath.dirname(path), *SPEC_FOLDERS))
            for name in self._host.listdir(folder)
            if name.endswith((".json", ".yaml"))
        ]
        return {one: self._host.read(one) or "" for one in found if one != path}

    def _libraries(self, version: str) -> t.List[cdi.Library]:
        cache = self._ldconfig()
        found: t.List[cdi.Pair] = []
        for name, path in cache:
            real = self._real(path)
            if real and cdi.is_driver_library(posixpath.basename(real), version):
                found.append((real, name))
        folders = list(dict.fromkeys(posixpath.dirname(path) for path, _name in sorted(found)))
        folders += [one for one in cdi.search_folders(cache) if one not in folders]
        listings = {folder: self._host.listdir(self.root + folder) for folder in folders}
        for folder, names in listings.items():
            for name in names:
                if cdi.is_driver_library(name, version):
                    real = self._real(f"{folder}/{name}")
                    found += [(real, name)] if real else []
        files = {path for path, _name in found}
        stems = {cdi.stem(posixpath.basename(path)) for path in files}
        for folder, names in listings.items():
            for name in names:
                if ".so" in name and cdi.stem(name) in stems:
                    real = self._real(f"{folder}/{name}")
                    found += [(real, name)] if real in files and real else []
        return cdi.collect(found)

    def _ldconfig(self) -> t.List[cdi.Pair]:
        if self._cache is None:
            argv = ["ldconfig", "-p"]
            if self.root:
                argv += ["-C", f"{self.root}/etc/ld.so.cache"]
            # Without a cache there are still the folders where packages keep their libraries.
            self._cache = cdi.parse_ldconfig(self._host.run(argv, check=False).out)
        return self._cache

    def _real(self, path: str) -> t.Optional[str]:
        """Return where a path leads, None where there is nothing."""
        real = cdi.resolve(path, lambda one: self._host.readlink(self.root + one))
        return real if real and self._host.exists(self.root + real) else None


def specify(
    found: Inventory, machine: DriverFiles, options: Options
) -> t.Tuple[Wanted, t.Tuple[str, ...]]:
    """Return the wanted specification, and warnings."""
    version = found.driver_version
    warnings = [f"a GPU is left out: {error}" for error in found.broken]
    warnings += [f"GPU {one.gpu.index} is left out: {one.error}" for one in found.gpus if one.error]
    whole = [one for one in found.gpus if not one.error]
    nodes = machine.device_nodes()
    devices, left_out = cdi.devices(
        [one.gpu for one in whole],
        [mig for one in whole for mig in one.migs],
        machine.mig_minors(),
        nodes,
    )
    warnings += left_out
    if not devices:
        warnings.append(
            "no GPU of this node can be given to containers: there is no CDI specification"
        )
        return Wanted(driver_version=version), tuple(warnings)
    rivals = [
        f"{path} describes {cdi.KIND} too, and runtimes read both. Next step: remove it"
        for path, text in machine.others(options.path).items()
        if cdi.describes_gpus(text)
    ]
    if options.generator == NVIDIA_CTK:
        hook = check_program(machine.program(NVIDIA_CTK))
        spec = parse(machine.generate([hook, *arguments(machine.root)]), hook)
    else:
        hook, notes = _hook(machine) if options.hooks == "auto" else ("", [])
        files = machine.read(version)
        folders = options.library_folders or machine.image_folders()
        spec = cdi.build(devices, nodes, files, cdi.Layout(folders, machine.root, hook))
        warnings += [*notes, *_missing(nodes, files, version)]
    check(spec, machine.open_folder)
    names = tuple(one["name"] for one in spec["devices"])
    wanted = Wanted(cdi.render(spec), names, spec["cdiVersion"], version, hook)
    return wanted, (*warnings, *rivals)


def _hook(machine: DriverFiles) -> t.Tuple[str, t.List[str]]:
    """Return the hook program, if there is one to use, and what to say of one that is not."""
    path, text = machine.program(*HOOK_PROGRAMS) or ("", "")
    if not path or is_safe(text):
        return path, []
    return "", [
        f"{path} is not used: its version is {described(text)}, and before {MINIMUM_TEXT} containers could "
        "break out through it. Libraries are mounted without it. Next step: upgrade the NVIDIA container toolkit"
    ]


def _missing(nodes: t.Container[str], files: cdi.Files, version: str) -> t.List[str]:
    """Name what CUDA in containers will miss."""
    notes = [
        f"{path} does not exist, and CUDA needs it. Next step: load the module (nvidia-modprobe -u -c 0)"
        for path in CONTROL_NODES[:2]
        if path not in nodes
    ]
    if not any("libcuda.so" in one.names for one in files.libraries):
        notes.append(
            f"libcuda.so.{version} is not on this node: containers get no CUDA. "
            "Next step: install the driver's libraries (gpu.node.nvidia_driver)"
        )
    return notes
