# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the driver comes from besides packages: a repository, or NVIDIA's installer."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.packages.pgp import MAX_BYTES
from ..._base.packages.presets import DRIVER_PRESETS
from ..._base.packages.repository import Known, Repository, is_elsewhere
from ..._base.steps import Step
from ..._generated.nvidia_driver import SPEC
from ..._machine.download import bring, fetched
from ..._machine.host import Host
from ..._machine.packages.api import PackageManager
from ..._machine.packages.apt_sources import OWN_SOURCES
from ..._node.machine.recorded import Additions, existing, named, repository_files
from ..branches import NO_VERSION, Version
from ..desired import Runfile as File
from ..desired import parse_repository
from ..facts import Installed
from ..family import Family
from ..kernel.modules import tail
from ..packages.names import PLACE
from ..record import Record
from ..sources.runfile import TRACES, UNINSTALLER, parse_traces
from .kernel import building

LOG = "/var/log/nvidia-installer.log"
COPY = "/var/lib/gpu-node/nvidia-driver.run"
Params = t.Mapping[str, t.Any]
UNREACHED = (
    "see that the node reaches NVIDIA's repository, through a proxy by the play's environment; or name a mirror in "
    "nvidia_driver_repository (preset: nvidia with its base_url); or take what the distribution has, by "
    "nvidia_driver_source: distribution"
)


@dataclasses.dataclass
class Node:
    """The machine, its family, what was added to it, and what this run has met with.

    Attributes:
        host: The machine.
        family: Its family of distributions.
        manager: Its package manager.
        added: The record of additions.
        advice: What helps if packages of others would have to go.
        refreshed: Whether this run has fetched the package lists.
        previewed: Whether this run tries sources aside.
        refresh_note: What went wrong with the package lists.
        reload_note: Why this run could not exchange the loaded modules.
        undone: What this run has taken back.
        stream_back: Restores the module stream that was enabled before.
    """

    host: Host
    family: Family
    manager: PackageManager
    added: Additions[Record]
    advice: str = ""
    refreshed: bool = False
    previewed: bool = False
    refresh_note: str = ""
    reload_note: str = ""
    undone: Record = dataclasses.field(default_factory=Record)
    stream_back: t.Callable[[], None] = lambda: None

    @property
    def kernel(self) -> str:
        """Return the running kernel."""
        return (self.host.read("/proc/sys/kernel/osrelease") or "").strip()

    def refresh(self) -> None:
        """Fetch the package lists."""
        self.refresh_note = self.manager.update()
        self.refreshed = True

    def preview_lists(self) -> bool:
        """Fetch the package lists for a preview, and return whether that was possible."""
        self.refreshed = True
        return self.manager.update_aside()

    def preview_sources(self, steps: t.Iterable[Step]) -> None:
        """Have the package manager read the sources that steps would write, for this run alone.

        Raises:
            NodeError: if a key can't be fetched, or is not the one that is pinned.
        """
        files: t.Dict[str, str] = {}
        removed: t.Set[str] = set()
        for step in steps:
            if step.action == "sources":
                files[OWN_SOURCES] = step.params["text"]
            elif step.action == "repository":
                files.update(repository_files(step.params, UNREACHED)[0])
                removed.update(step.params["stale"])
        self.refresh_note = self.manager.preview_sources(files, removed)
        self.refreshed = self.previewed = True

    def end_preview(self) -> None:
        """Ask the node's own sources again."""
        if self.previewed:
            self.manager.end_preview()
        self.previewed = False


class Part:
    """A part of the driver on a node; its steps are in the capability's table."""

    def __init__(self, node: Node) -> None:
        self._node = node


def known_repository(node: Node, repository: t.Optional[Repository]) -> Known:
    """Return our files; if a repository is desired, also its key's text and the keys that rpm trusts."""
    known = Known(existing(node.host, PLACE.paths))
    if repository is not None:
        key = node.host.read(repository.key_path) if repository.key_path else None
        known = known._replace(key=key, trusted=node.manager.trusted())
    return known


def nvidias(node: Node) -> t.Optional[Repository]:
    """Return NVIDIA's repository for the system, if there is one."""
    options = SPEC["argument_spec"]["repository"]["options"]
    values = {
        **{name: option.get("default") for name, option in options.items()},
        "preset": "nvidia",
    }
    try:
        return parse_repository(named(node.host, values, DRIVER_PRESETS), "repository")
    except InputError:
        return None


def reach(node: Node, repository: Repository, why: str) -> None:
    """Refuse a repository whose key can't be fetched; ``why`` says why it is to be the node's source.

    One that somebody else has made known is read by apt already.
    """
    if is_elsewhere(repository, PLACE, node.manager.sources()):
        return
    fetched(repository.key_url, MAX_BYTES, f"{UNREACHED} ({why})")


class WrittenSources(Part):
    """The repository and the sources file that this run writes, which go again if they do not have the driver."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._before = node.added.record

    def take_back(self) -> bool:
        """Remove sources that this run has written unless packages came of them; return whether there were any."""
        added, before = self._node.added, self._before
        record = added.record
        if record.packages != before.packages:
            return False
        has_repository = record.repository and not before.repository
        has_sources = record.sources and not before.sources
        if has_repository:
            added.forget_repository(self._node.manager, PLACE.paths)
            added.remember(repository=False, keys=before.keys)
        if has_sources:
            self._node.host.remove(OWN_SOURCES)
            added.remember(sources=False)
        if has_repository or has_sources:
            self._node.refresh()
        return has_repository or has_sources


class Runfile(Part):
    """The driver from a .run file."""

    def observe(self, runfile: t.Optional[File]) -> Installed:
        """Return what the installer has left, and what a run from a file would lack."""
        host = self._node.host
        if runfile is None:
            return Installed(self._version())
        missing = [] if host.which("cc") or host.which("gcc") else ["C compiler"]
        missing += [] if host.which("make") else ["make"]
        there = not runfile.location.startswith("/") or host.exists(runfile.location)
        return Installed(self._version(), bool(host.which("dkms")), tuple(missing), there)

    def _version(self) -> Version:
        host = self._node.host
        return parse_traces(host.read(TRACES) or "") if host.exists(UNINSTALLER) else NO_VERSION

    def install(self, params: Params) -> None:
        """Run the installer from a copy that nobody else can change, and check the version that it brought."""
        host, added = self._node.host, self._node.added
        bring(params["location"], COPY, params["sha256"])
        added.remember(runfile="?")
        try:
            with building(host):
                self._call(["sh", COPY, *params["options"]], "NVIDIA's installer")
        finally:
            host.remove(COPY)
        installed = self._version()
        if installed != params["version"]:
            raise NodeError(
                f"the installer has brought version {installed or '(none)'}, not {params['version']}",
                cause=f"{TRACES} says so",
                hint="set version to the one that the file has",
            )
        added.remember(runfile=f"{params['version']} {params['kind']}")

    def uninstall(self, _params: Params) -> None:
        """Have the installer remove what it brought; the loaded modules stay."""
        if self._node.host.exists(UNINSTALLER):
            self._call([UNINSTALLER, "--silent", "--skip-module-unload"], UNINSTALLER)
        self._node.added.remember(runfile="")

    def _call(self, command: t.Sequence[str], name: str) -> None:
        completed = self._node.host.run(command, check=False)
        if completed.rc != 0:
            log = tail(self._node.host.read(LOG) or "")
            log = log or completed.err.strip() or completed.out.strip()
            raise NodeError(
                f"{name} failed with status {completed.rc}",
                cause=f"the end of {LOG}:\n{log}",
                hint="fix the cause named above and run again",
                rc=completed.rc,
            )
