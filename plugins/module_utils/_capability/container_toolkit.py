# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.container_toolkit."""

from __future__ import annotations

import dataclasses
import typing as t

from .._core.cdi import boot as cdi_boot
from .._core.cdi.generated import NVIDIA_CTK
from .._core.errors import NodeError, checked_timeout
from .._core.packages.apt import upstream
from .._core.packages.package import Change, still_there
from .._core.packages.presets import TOOLKIT_PRESETS
from .._core.packages.repository import Known, Repository
from .._core.packages.repository import parse as parse_repository
from .._core.steps import Plan, Step
from .._core.toolkit import plan as toolkit
from .._core.toolkit.plan import ALL, BASE, DROP_IN, PLACE, VENDOR_FILE, Desired, Observed, Record
from .._core.toolkit.version import MINIMUM_TEXT
from .._host.api import Host
from .._host.driver_files import SPEC_FOLDERS
from .._host.packages.api import PackageManager
from .nodeinfo import os_release
from .own_files import OwnFiles
from .recorded import REPOSITORY_SPEC, Additions, existing, named, package_manager
from .runtimes.record import Records

RECORD = "/var/lib/gpu-node/container_toolkit.json"
RUNTIME = "/usr/bin/nvidia-container-runtime"
HOOK = "/usr/bin/nvidia-cdi-hook"
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "version": {"type": "str", "default": ""},
        "parts": {"type": "str", "choices": sorted(toolkit.PARTS), "default": "all"},
        "hold": {"type": "bool", "default": True},
        "vendor_refresh": {"type": "bool", "default": False},
        "repository": {
            **REPOSITORY_SPEC,
            "options": {
                **REPOSITORY_SPEC["options"],
                "signed_packages": {"type": "bool"},
            },
        },
        "lock_timeout": {"type": "int", "default": 300},
    }
}


class ToolkitCapability:
    """Keeps the NVIDIA container toolkit of a node installed and held at a safe version."""

    name = "container_toolkit"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        values = dict(params)
        self._timeout = checked_timeout(values.pop("lock_timeout"))
        toolkit.check_version(values["version"])
        self._host, self._check_mode = host, check_mode
        self._added = Additions(host, RECORD, Record)
        self._family = _family(host)
        self._desired = Desired(
            repository=self._repository(values.pop("repository"), values["state"]), **values
        )
        self._refreshed, self._note = False, ""
        self._actions: t.Dict[str, t.Callable[[t.Mapping[str, t.Any]], None]] = {
            "repair": lambda _params: self._manager.repair(),
            "refresh": self._refresh,
            "repository": lambda params: self._added.write_repository(self._manager, params),
            "vendor": self._vendor,
            "install": self._install,
            "hold": self._hold,
            "release": lambda _params: self._added.release(self._manager, self._added.record.holds),
            "purge": self._purge,
            "remove": self._remove,
        }

    def _repository(
        self, values: t.Optional[t.Mapping[str, t.Any]], state: str
    ) -> t.Optional[Repository]:
        """Return what is said of the repository, which says nothing of a toolkit that is to go."""
        if values is None or state == "absent" or not self._family:
            return None
        found = named(self._host, values, TOOLKIT_PRESETS, self._family)
        return None if found is None else parse_repository(found)

    @property
    def _manager(self) -> PackageManager:
        if not self._family:
            raise NodeError(
                "the NVIDIA container toolkit cannot be installed on this system",
                cause=f"/etc/os-release names none of {', '.join(toolkit.FAMILIES)}",
                hint="install it by other means, or use mode cdi of gpu.node.container_runtime, which needs none of it",
            )
        purpose = "the container toolkit"
        return package_manager(self._family, self._host, self._timeout, purpose, self.name)

    # --- observe ---

    def observe(self) -> Observed:
        """Read packages, files and what uses the toolkit."""
        host, wanted, record = self._host, self._desired, self._added.record
        present = wanted.state == "present"
        files = existing(host, PLACE.paths)
        if not (present or record or files):
            return Observed(self._family, {}, {}, Known(), record)
        manager = self._manager
        packages = manager.packages()
        path = wanted.repository.key_path if wanted.repository else ""
        observed = Observed(
            family=self._family,
            packages={name: packages[name] for name in ALL if name in packages},
            policies=manager.policies(ALL) if present else {},
            repository=Known(
                files, host.read(path) if path and present else None, manager.trusted()
            ),
            record=record,
            sources=manager.sources() if wanted.repository else (),
            drop_in=host.read(DROP_IN),
            vendor_file=_is_vendors(host.read(VENDOR_FILE)),
            users=() if present else self._users(),
            interrupted=manager.interrupted(),
            refreshed=self._refreshed,
            note=self._note,
        )
        if present or not record.packages or observed.unfinished:
            return observed
        ours = still_there(record.packages, packages)
        return dataclasses.replace(observed, removal=manager.removal(ours))

    def _users(self) -> t.Tuple[str, ...]:
        """Name the configurations of ours that would stop containers from starting without it."""
        host = self._host
        found = [
            f"{one.runtime} starts containers through {RUNTIME}, says {path}"
            for path, one in Records(host).all().items()
            if RUNTIME in (host.read(path) or "")
        ]
        text = host.read(cdi_boot.CONFIG)
        if text is not None and cdi_boot.load(text, cdi_boot.CONFIG).generator == NVIDIA_CTK:
            found.append(f"{NVIDIA_CTK} writes the CDI specification, says {cdi_boot.CONFIG}")
        if text is None:  # nothing would write the specification again
            paths = [f"{one}/{name}" for one in SPEC_FOLDERS for name in host.listdir(one)]
            found += [
                f"{path} names {HOOK}"
                for path in paths
                if not _is_vendors(host.read(path)) and HOOK in (host.read(path) or "")
            ]
        return tuple(found)

    def plan(self, state: Observed) -> Plan:
        """Plan with pure functions; NodeError also where packages could not be held afterwards."""
        found = toolkit.plan(state, self._desired, check_mode=self._check_mode)
        if any(step.action == "hold" for step in found.steps):
            self._manager.check_hold()
        return found

    def own(self, _state: Observed) -> OwnFiles:
        """Return what is root's alone."""
        paths = (RECORD, DROP_IN, *PLACE.paths) if self._desired.state == "present" else ()
        modes = dict.fromkeys(paths, 0o644)
        return OwnFiles(self._host, modes, record=RECORD, proof=(DROP_IN,))

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        self._actions[step.action](step.params)

    def _refresh(self, _params: t.Mapping[str, t.Any]) -> None:
        self._note = self._manager.update()
        self._refreshed = True

    def _vendor(self, params: t.Mapping[str, t.Any]) -> None:
        if params["text"] is None:
            self._remove_drop_in()
        else:
            self._added.remember(drop_in=True)
            self._host.write(DROP_IN, params["text"], mode=0o644)
            self._host.run(["systemctl", "daemon-reload"])
        if params["file"]:
            self._host.remove(VENDOR_FILE)

    def _install(self, params: t.Mapping[str, t.Any]) -> None:
        record = self._added.record
        change = Change(params["packages"], (), {}, record.holds)
        simulation = self._manager.simulate(change)
        if simulation.removed:
            raise NodeError(
                f"the installation would remove {', '.join(simulation.removed)}; nothing was changed",
                hint="look at what they need, and remove them yourself or ask for another version",
            )
        self._added.remember(packages=record.packages | set(simulation.new))
        self._manager.change(change)

    def _hold(self, params: t.Mapping[str, t.Any]) -> None:
        packages = self._manager.packages()
        free = [name for name in params["hold"] if not packages[name].held]
        if free:
            self._added.hold(self._manager, free)

    def _purge(self, params: t.Mapping[str, t.Any]) -> None:
        self._added.release(self._manager, params["packages"])
        self._manager.purge(params["packages"])
        self._added.remember(packages=self._added.record.packages - set(params["packages"]))

    def _remove(self, params: t.Mapping[str, t.Any]) -> None:
        self._added.release(self._manager, self._added.record.holds)
        if params["packages"]:
            self._manager.purge(params["packages"])
        self._added.forget_repository(self._manager, params["files"])
        if self._added.record.drop_in:
            self._remove_drop_in()
        self._manager.clean()
        self._added.forget()

    def _remove_drop_in(self) -> None:
        self._host.remove(DROP_IN)
        folder = DROP_IN.rsplit("/", 1)[0]
        if not self._host.listdir(folder):
            self._host.remove(folder)
        self._host.run(["systemctl", "daemon-reload"])
        self._added.remember(drop_in=False)

    # --- report ---

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions."""
        version = state.version(BASE)
        return {
            "toolkit_version": upstream(version) if version else None,
            "minimum_version": MINIMUM_TEXT,
            "packages": {name: state.version(name) for name in ALL if state.version(name)},
        }


def _family(host: Host) -> str:
    """Return whose package manager a system has; nothing for one that is not known."""
    release = os_release(host)
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((toolkit.FAMILIES[word] for word in words if word in toolkit.FAMILIES), "")


def _is_vendors(text: t.Optional[str]) -> bool:
    """Tell whether a specification is not one of ours, which are JSON whatever their name."""
    return text is not None and not text.lstrip().startswith("{")
