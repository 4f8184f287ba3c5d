# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.container_toolkit."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.packages.apt import upstream
from ..._base.packages.presets import TOOLKIT_PRESETS
from ..._base.packages.repository import Known, Repository, followed
from ..._base.packages.repository import parse as parse_repository
from ..._base.steps import Plan
from ..._base.toolkit import MINIMUM_TEXT, is_safe
from ..._cdi import boot
from ..._cdi.generated import NVIDIA_CTK
from ..._cdi.machine.driver_files import SPEC_FOLDERS
from ..._machine.host import Host
from ..._machine.own_files import OwnFiles
from ..._node.machine.recorded import existing, named, repository_files
from ..._runtime.machine.record import Records
from ..machine import Software
from . import plan as toolkit
from .plan import ALL, BASE, DROP_IN, PLACE, VENDOR_FILE, DesiredToolkit, Record, ToolkitState

RECORD = "/var/lib/gpu-node/container_toolkit.json"
RUNTIME = "/usr/bin/nvidia-container-runtime"
HOOK = "/usr/bin/nvidia-cdi-hook"


class ToolkitCapability(Software[ToolkitState, Record]):
    """Keeps the NVIDIA container toolkit of a node installed and held at a safe version."""

    name = "container_toolkit"
    title, purpose = "the NVIDIA container toolkit", "the container toolkit"
    instead = "use mode cdi of gpu.node.container_runtime, which needs none of it"
    rivals = "", "look at what they need, and remove them yourself or ask for another version"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        values = dict(params)
        super().__init__(host, RECORD, Record, values.pop("lock_timeout"))
        version = values["version"]
        if version and not is_safe(version):
            expected = (
                f"{MINIMUM_TEXT} or later, as containers could break out through earlier ones"
            )
            raise InputError.of("version", version, expected)
        self._check_mode = check_mode
        source = self._repository(values.pop("repository"), values["state"])
        self._desired = DesiredToolkit(repository=source, **values)
        self._actions |= {
            "repository": lambda params: self._added.write_repository(self._manager, params),
            "vendor": self._vendor,
            "release": self._hold,
            "purge": self._purge,
            "remove": self._remove,
        }

    def _repository(
        self, values: t.Optional[t.Mapping[str, t.Any]], state: str
    ) -> t.Optional[Repository]:
        """Return the desired repository, None if the toolkit is to go."""
        if values is None or state == "absent" or not self._family:
            return None
        repository = named(self._host, values, TOOLKIT_PRESETS, self._family)
        return None if repository is None else parse_repository(repository)

    # --- observe ---

    def observe(self) -> ToolkitState:
        """Read packages, files and what uses the toolkit."""
        host, desired, record = self._host, self._desired, self._added.record
        present = desired.state == "present"
        files = existing(host, PLACE.paths)
        if not (present or record or files):
            return ToolkitState(self._family, {}, {}, record)
        path = desired.repository.key_path if desired.repository else ""
        key = host.read(path) if path and present else None
        manager = self._manager
        return self._observed(
            ToolkitState,
            ALL,
            present=present,
            repository=Known(files, key, manager.trusted()),
            sources=manager.sources() if desired.repository else (),
            drop_in=host.read(DROP_IN),
            vendor_file=_is_vendors(host.read(VENDOR_FILE)),
            users=() if present else self._users(),
        )

    def _users(self) -> t.Tuple[str, ...]:
        """Return the configurations of ours that would stop containers from starting without it, for people."""
        host = self._host
        messages = [
            f"{file.runtime} starts containers through {RUNTIME}, says {path}"
            for path, file in Records(host).all().items()
            if RUNTIME in (host.read(path) or "")
        ]
        text = host.read(boot.CONFIG)
        if text is not None and boot.load(text, boot.CONFIG).generator == NVIDIA_CTK:
            messages.append(f"{NVIDIA_CTK} writes the CDI specification, says {boot.CONFIG}")
        if text is None:  # nothing would write the specification again
            paths = [f"{folder}/{name}" for folder in SPEC_FOLDERS for name in host.listdir(folder)]
            specs = {path: host.read(path) or "" for path in paths}
            messages += [
                f"{path} names {HOOK}"
                for path, spec in specs.items()
                if HOOK in spec and not _is_vendors(spec)
            ]
        return tuple(messages)

    def plan(self, state: ToolkitState) -> Plan:
        """Plan with pure functions.

        Raises:
            NodeError: if packages could not be installed, or held afterwards.
        """
        result = self._possible(self._previewed(state))
        if any(step.action == "hold" for step in result.steps):
            self._manager.check_hold()
        return result

    def _previewed(self, state: ToolkitState) -> Plan:
        """Return the plan with what comes once its repository is known, which check mode tries aside."""
        planned = toolkit.plan(state, self._desired, check_mode=self._check_mode)
        named = [step for step in planned.steps if step.action == "repository"]
        if not self._check_mode or not named or self._refreshed:
            return planned
        (step,) = named
        files, _trust = repository_files(step.params)
        self._note = self._manager.preview_sources(files, step.params["stale"])
        self._refreshed = True
        state = self.observe()
        return followed(planned, toolkit.plan(state, self._desired, check_mode=True))

    def own(self, _state: ToolkitState) -> OwnFiles:
        """Return the files that only root may write."""
        paths = (RECORD, DROP_IN, *PLACE.paths) if self._desired.state == "present" else ()
        modes = dict.fromkeys(paths, 0o644)
        return OwnFiles(self._host, modes, record=RECORD, proof=(DROP_IN,))

    # --- apply ---

    def _vendor(self, params: t.Mapping[str, t.Any]) -> None:
        if params["text"] is None:
            self._remove_drop_in()
        else:
            self._added.remember(drop_in=True)
            self._host.write(DROP_IN, params["text"], mode=0o644)
            self._host.run(["systemctl", "daemon-reload"])
        if params["file"]:
            self._host.remove(VENDOR_FILE)

    def _purge(self, params: t.Mapping[str, t.Any]) -> None:
        self._added.release(self._manager, params["packages"])
        self._manager.purge(params["packages"])
        self._added.remember(packages=self._added.record.packages - set(params["packages"]))

    def _remove(self, params: t.Mapping[str, t.Any]) -> None:
        self._take_back(params["packages"])
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

    def result(self, state: ToolkitState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions."""
        version = state.installed(BASE)
        return {
            "toolkit_version": upstream(version) if version else None,
            "minimum_version": MINIMUM_TEXT,
            "packages": state.there(ALL),
        }


def _is_vendors(text: t.Optional[str]) -> bool:
    """Return whether a specification is not one of ours, which are JSON whatever their name."""
    return text is not None and not text.lstrip().startswith("{")
