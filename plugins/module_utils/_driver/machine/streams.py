# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The streams of dnf's module that has the driver: asked for, enabled, and put back."""

from __future__ import annotations

import functools
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.rpm import is_disabled, parse_enabled, parse_info
from ..._machine.packages.dnf import Dnf
from ..branches import Version
from ..desired import Desired
from ..facts import DriverState, Streams
from ..families.rhel import (
    MODULE,
    MODULE_FILE,
    RELEASES,
    choose_stream,
    is_foreign,
    stream_fits,
    wanted_stream,
    with_stream,
)
from ..record import Record
from .kernel import module_files
from .sources import Params, Part

# As dnf writes it.
MODULE_TEXT = f"[{MODULE}]\nname={MODULE}\nstream={{stream}}\nprofiles=\nstate={{state}}\n\n"
KMOD = "nvidia-kmod"  # provided by all packages of kernel modules that a user space of NVIDIA's runs with


class ModuleStreams(Part):
    """The streams of the module that has the driver, and others' packages in the place of its kernel modules."""

    def observe(self, state: DriverState, desired: Desired) -> DriverState:
        """Add the streams, others' kernel modules, and which of the packages that are lacking dnf excludes."""
        manager = self._node.manager
        if not isinstance(manager, Dnf):
            return state
        if state.machine.codename in RELEASES:
            state = self._observe_streams(manager, state, desired)
        if desired.state == "present" and not desired.source.runfile:
            state = state.with_loaded(foreign=self._foreign(manager, state))
            state = state.with_history(excluded=self._excluded(manager, state, desired))
        return state

    def _observe_streams(self, manager: Dnf, state: DriverState, desired: Desired) -> DriverState:
        """Add the streams; dnf is asked only where the one that is enabled does not fit."""
        enabled, info = self._enabled(), ""
        version, of = wanted_stream(state, desired)
        if not of:
            return state.with_software(streams=Streams(enabled))
        kind = state.wanted_type(desired.kernel.module_type)
        there = state.software.drivers(state.software.names.modules.by_type[kind])
        has = any(driver.fits(Version.of(version)) for driver in there)
        if desired.state == "present" and not (has and stream_fits(enabled, version, of)):
            info = manager.module(["info", MODULE])
        streams = Streams(enabled, parse_info(info))
        chosen = choose_stream(streams, version, of)
        policies = state.software.policies
        if chosen:
            policies = with_stream(
                policies, streams, chosen, state.machine.kernel.rpartition(".")[2]
            )
        return state.with_software(streams=streams, policies=policies)

    def _foreign(self, manager: Dnf, state: DriverState) -> t.FrozenSet[str]:
        """Return the packages of others that have kernel modules, unless we have added some."""
        software, host, ours = state.software, self._node.host, state.history.record.packages
        if any(state.type_of(name) and software.installed(name) for name in ours):
            return frozenset()
        providers = manager.providers([KMOD, *module_files(host)]) - ours
        return frozenset(
            name for name in providers if is_foreign(name, software.installed(name) or "")
        )

    def _excluded(self, manager: Dnf, state: DriverState, desired: Desired) -> t.FrozenSet[str]:
        """Return which packages that are lacking dnf's configuration excludes; dnf is asked only if any are."""
        software, names = state.software, state.software.names
        kernel = names.modules.by_type[state.wanted_type(desired.kernel.module_type)]
        needed = [*names.user_space, kernel]
        if names.headers.form and not state.machine.headers:
            needed += [names.headers.package_for(state.machine.kernel), "dkms"]
        lacking = [name for name in needed if not software.versions(name)]
        return manager.excluded(lacking) if lacking else frozenset()

    def enable(self, params: Params) -> None:
        """Enable a stream; the one that was enabled before the first is remembered."""
        record = self._node.added.record
        disabled = (
            record.module_disabled
            if record.stream
            else is_disabled(self._node.host.read(MODULE_FILE) or "")
        )
        self._node.stream_back = functools.partial(
            self._back, record, params["before"], disabled=disabled and not record.stream
        )
        before = record.stream_before if record.stream else params["before"]
        self._node.added.remember(
            stream=params["stream"], stream_before=before, module_disabled=disabled
        )
        self._switch(params["stream"])

    def _back(self, record: Record, before: str, *, disabled: bool) -> None:
        """Restore the stream of before, whose packages are to be put back, and what was recorded."""
        self._switch(before, disable=disabled)
        self._node.added.remember(
            stream=record.stream,
            stream_before=record.stream_before,
            module_disabled=record.module_disabled,
        )

    def forget(self) -> None:
        """Put the stream back to what it was, unless somebody has enabled another since."""
        record = self._node.added.record
        if not record.stream or self._enabled() != record.stream:
            return
        try:
            self._switch(record.stream_before, disable=record.module_disabled)
        except NodeError:
            # dnf asks for repositories that have the module, and they may not answer, or no longer have the stream.
            state = (
                "enabled" if record.stream_before else "disabled" if record.module_disabled else ""
            )
            text = MODULE_TEXT.format(stream=record.stream_before, state=state)
            self._node.host.write(MODULE_FILE, text, mode=0o644)

    def _enabled(self) -> str:
        return parse_enabled(self._node.host.read(MODULE_FILE) or "")

    def _switch(self, stream: str, *, disable: bool = False) -> None:
        """Enable a stream in place of any other; without one the module is reset, or disabled."""
        manager = self._node.manager
        if isinstance(manager, Dnf):
            manager.module(["reset", MODULE], check=True)
            if stream:
                manager.module(["enable", f"{MODULE}:{stream}"], check=True)
            elif disable:
                manager.module(["disable", MODULE], check=True)
