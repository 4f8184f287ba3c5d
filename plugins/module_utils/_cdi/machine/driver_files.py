# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's files on a node: libraries, programs, sockets, firmware, device nodes."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import CAPS_FOLDER, MIG_MINORS, parse_minors
from ..._base.linker import Pair, resolve, search_folders
from ..._machine.host import Host
from ..._machine.linker import Linker
from .. import capabilities as parts
from .. import libraries as cdi
from ..specification import SOCKETS, Drm, Files

PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
SPEC_FOLDERS = ("/etc/cdi", "/var/run/cdi")
NVML_LIBRARY = "libnvidia-ml.so.1"
DRI_FOLDER, PCI_FOLDER = "/dev/dri", "/sys/bus/pci/devices"
FIRMWARE_FOLDER = "/lib/firmware"
FIRMWARE_PATH = "/sys/module/firmware_class/parameters/path"
KERNEL = "/proc/sys/kernel/osrelease"
XORG_FOLDERS = tuple(
    f"xorg/modules{sub}/{folder}"
    for sub in ("", "/updates")
    for folder in ("drivers", "extensions")
)


class DriverFiles:
    """Looks below ``root``, where the driver's / is seen on the node; all paths start at that /."""

    def __init__(self, host: Host, root: str) -> None:
        self._host = host
        self._linker = Linker(host, root)
        self.root = self._linker.root

    def device_nodes(self) -> t.FrozenSet[str]:
        """Return NVIDIA's device nodes that exist."""
        nodes = []
        for folder in ("/dev", CAPS_FOLDER):
            names = self._host.listdir(self.root + folder)
            nodes += [f"{folder}/{name}" for name in names if name.startswith("nvidia")]
        return frozenset(nodes)

    def drm(self, address: str) -> Drm:
        """Return the DRM nodes of a GPU; /sys is the node's own if the root has none."""
        folder = f"{PCI_FOLDER}/{address.lower()}/drm"
        names = self._host.listdir(self.root + folder) or self._host.listdir(folder)
        nodes = [f"{DRI_FOLDER}/{name}" for name in names if name.startswith(("card", "render"))]
        nodes = sorted(path for path in nodes if self._host.exists(self.root + path))
        links = [f"{DRI_FOLDER}/by-path/pci-{address.lower()}-{end}" for end in ("card", "render")]
        pairs = ((self._host.readlink(self.root + link), link) for link in links)
        by_path = [(end, link) for end, link in pairs if end and self._real(link) in nodes]
        return Drm(tuple(nodes), tuple(by_path))

    def mig_minors(self) -> t.Dict[str, int]:
        """Return the capabilities' minors; /proc is the node's own where the root has none."""
        text = self._host.read(self.root + MIG_MINORS)
        return parse_minors(self._host.read(MIG_MINORS) or "" if text is None else text)

    def image_folders(self) -> t.Tuple[str, ...]:
        """Return the folders that libraries are mounted in for the loaders of images, the distribution's own first."""
        folders = search_folders(self._linker.cache())
        there = (folder for folder in folders if self._host.listdir(self.root + folder))
        own = next(there, folders[0])
        return cdi.image_folders(own, aarch64=self._real(cdi.AARCH64_LOADER) is not None)

    def nvml_library(self) -> str:
        """Return the path of NVML on the node where it is not the node's own, else nothing."""
        paths = self._nvml_paths() if self.root else ()
        return next((path for path in paths if not self.open_folder(path)), "")

    def _nvml_paths(self) -> t.Iterator[str]:
        for folder in self._linker.folders(lambda name: name.startswith("libnvidia-ml.so.")):
            path = self._real(f"{folder}/{NVML_LIBRARY}")
            if path:
                yield self.root + path

    def required_nvml_library(self) -> str:
        """Return the path of NVML where it is not the node's own, else nothing.

        Raises:
            NodeError: if another root is named and has no driver. The node's own may be of another version.
        """
        if self.root and not any(self._nvml_paths()):
            raise NodeError(
                f"no driver is below {self.root}",
                cause=f"{NVML_LIBRARY} is not there",
                hint="start what brings it there, or leave the root at / for the driver of the node itself",
            )
        return self.nvml_library()

    def read(self, version: str, capabilities: parts.Chosen) -> Files:
        """Return the files of this version of the driver that belong to the capabilities."""
        libraries = self._libraries(version, capabilities)
        compat32 = "compat32" in capabilities
        return Files(
            tuple(libraries),
            tuple(self._programs(libraries, capabilities)),
            tuple(path for path in SOCKETS if self._host.exists(self.root + path)),
            (*self._firmware(version), *self._drawing_files(libraries, version, capabilities)),
            tuple(self._libraries(version, capabilities, compat32=True) if compat32 else ()),
        )

    def _first(self, names: t.Iterable[str], folders: t.Sequence[str]) -> t.Iterator[Pair]:
        """Yield the files of these names, each from the first of the folders that has it, and that path."""
        for name in names:
            paths = ((self._real(f"{folder}/{name}"), f"{folder}/{name}") for folder in folders)
            yield from [(real, path) for real, path in paths if real][:1]

    def _drawing_files(
        self, libraries: t.Iterable[cdi.Library], version: str, capabilities: parts.Chosen
    ) -> t.Iterator[Pair]:
        """Yield what finds the driver's libraries for programs that draw, and what an X server loads."""
        seen = set()
        for inside, name in parts.files(capabilities):
            paths = (self._real(f"{folder}/{name}") for folder in parts.FILE_FOLDERS)
            real = next(filter(None, paths), None)
            if real and real not in seen:
                seen.add(real)
                yield real, f"{inside}/{name}"
        if "display" in capabilities:
            glx = "libglxserver_nvidia.so"
            folders = sorted({posixpath.dirname(library.path) for library in libraries})
            bases = (*folders, "/usr/lib", "/usr/lib64", "/usr/X11R6/lib", "/usr/X11R6/lib64")
            places = [f"{folder}/nvidia/xorg" for folder in folders]
            places += [f"{base}/{sub}" for base in bases for sub in XORG_FOLDERS]
            yield from self._first(("nvidia_drv.so", f"{glx}.{version}", glx), places)

    def _firmware(self, version: str) -> t.Iterator[Pair]:
        """Yield the firmware of the GPUs' system processors from where the kernel looks for it."""
        release = (self._host.read(KERNEL) or "").strip()
        folders = [(self._host.read(FIRMWARE_PATH) or "").strip()]
        folders += [f"{FIRMWARE_FOLDER}/updates/{release}", f"{FIRMWARE_FOLDER}/updates"]
        folders += [f"{FIRMWARE_FOLDER}/{release}", FIRMWARE_FOLDER]
        for folder in dict.fromkeys(place.rstrip("/") for place in folders if place):
            there = self._linker.follow(f"{folder}/nvidia/{version}")
            for name in self._host.listdir(self.root + there) if there else ():
                real = self._real(f"{there}/{name}")
                if real and name.startswith("gsp") and name.endswith(".bin"):
                    yield real, f"{folder}/nvidia/{version}/{name}"

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

        def follow(link: str) -> t.Optional[str]:
            folders.append(root + posixpath.dirname(link))
            return self._host.readlink(root + link)

        end = resolve(visited, follow)
        for folder in dict.fromkeys([*folders, *([root + end] if end else [])]):
            status = self._host.status(folder or "/")
            if status and stat.S_ISDIR(status.mode) and status.mode & stat.S_IWOTH:
                return folder or "/"
        return ""

    def other_specifications(self, path: str) -> t.Dict[str, str]:
        """Return the text of all specifications of the node but one, by their paths."""
        folders = dict.fromkeys((posixpath.dirname(path), *SPEC_FOLDERS))
        every = (f"{folder}/{name}" for folder in folders for name in self._host.listdir(folder))
        files = [file for file in every if file.endswith((".json", ".yaml"))]
        return {file: self._host.read(file) or "" for file in files if file != path}

    def _programs(
        self, libraries: t.Iterable[cdi.Library], capabilities: parts.Chosen
    ) -> t.Iterator[Pair]:
        """Yield the programs: a driver with a folder of its own has them beside its libraries.

        Whatever is in the folders of programs then may do no more than start them. Images look in /usr/bin.
        """
        beside = {self._real(f"{posixpath.dirname(library.path)}/../bin") for library in libraries}
        own = sorted(filter(None, beside.difference(PROGRAM_FOLDERS)))
        for real, path in self._first(parts.binaries(capabilities), (*own, *PROGRAM_FOLDERS)):
            folder, name = posixpath.split(path)
            yield real, f"/usr/bin/{name}" if folder in own else path

    def _libraries(
        self, version: str, capabilities: parts.Chosen, *, compat32: bool = False
    ) -> t.List[cdi.Library]:
        def belongs(name: str) -> bool:
            ours = cdi.is_driver_library(name, version)
            return ours and parts.has_library(cdi.stem(name), capabilities)

        libraries = []
        for name, path in self._linker.cache(compat32=compat32):
            real = self._real(path)
            libraries += [(real, name)] if real and belongs(posixpath.basename(real)) else []
        folders = self._linker.folders(belongs, compat32=compat32)
        listings = {folder: self._host.listdir(self.root + folder) for folder in folders}
        for folder, names in listings.items():
            for name in names:
                if belongs(name):
                    real = self._real(f"{folder}/{name}")
                    libraries += [(real, name)] if real else []
        files = {path for path, _name in libraries}
        stems = {cdi.stem(posixpath.basename(path)) for path in files}
        for folder, names in listings.items():
            for name in names:
                if ".so" in name and cdi.stem(name) in stems:
                    real = self._real(f"{folder}/{name}")
                    libraries += [(real, name)] if real in files and real else []
        return cdi.collect(libraries, capabilities)

    def _real(self, path: str) -> t.Optional[str]:
        return self._linker.real(path)
