# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from NVIDIA's own installer, and the step that runs it."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.steps import Step
from ..branches import Version, best_versions, module_type, unsupported_error
from ..desired import Desired, Runfile
from ..facts import DriverState
from ..family import Family
from ..kernel.modules import refuse_key
from ..packages.names import Names
from ..packages.versions import Choice, Draft

UNINSTALLER = "/usr/bin/nvidia-uninstall"
# Where the installer writes what it has put where; its first line is "1.0-5809505 (580.95.05)".
TRACES = "/var/lib/nvidia/log"
TYPED = 560  # older installers choose the module type by the folder of its source


def parse_traces(text: str) -> Version:
    """Return the version in the installer's list of installed files."""
    match = re.match(r"[^\n]*\(([^)\n]+)\)|([^\s(]+)", text)
    return Version((match[1] or match[2]) if match else "")


def plan(_family: Family, state: DriverState, desired: Desired, check_mode: bool) -> Draft:
    """Return the plan for a driver from NVIDIA's own installer."""
    if not best_versions([desired.version], state.machine.gpus):
        raise unsupported_error([desired.version], state.machine.gpus)
    kind = module_type(desired.kernel.module_type, state.machine.gpus)
    steps = _steps(state, desired, kind)
    if steps and not check_mode:
        return steps, None
    return steps, Choice(kind, desired.version, {}, (), Names(title="NVIDIA's installer"))


def _steps(state: DriverState, desired: Desired, kind: str) -> t.Tuple[Step, ...]:
    """Return the step that runs the installer, none if the version is installed or nouveau must go first."""
    runfile, version = desired.source.runfile, desired.version
    if runfile is None:
        raise AssertionError("this is planned only where the user names a file")
    have, ours = state.software.runfile.version, state.history.record.runfile
    packages = [*filter(state.software.installed, state.software.names.relevant)]
    if packages:
        raise NodeError(
            f"the driver is installed from packages: {', '.join(packages)}",
            cause="the files of the two would mix",
            hint="remove the packages first: state absent, or the package manager where you installed them",
        )
    if have and not ours and have != version and not desired.adopt:
        raise NodeError(
            f"version {have} from NVIDIA's installer is on the node, and not by this module",
            cause=f"{TRACES} is there, and version {version} would replace it",
            hint=f"ask for version {have}, replace it by adopt: true, or run {UNINSTALLER} on the node",
        )
    # The installer refuses while nouveau holds the GPUs; the blacklist and a boot come first.
    there = have == version and ours in ("", f"{version} {kind}")
    if there or state.loaded.nouveau:
        return ()
    _check(state, runfile, refuse_unsigned=desired.kernel.secure_boot == "refuse")
    dkms = state.software.runfile.dkms
    # Silent, no part of a desktop, nothing unloaded.
    options = ["--silent", "--no-x-check", "--no-opengl-files", "--no-check-for-alternate-installs"]
    if int(version.branch) >= TYPED:
        options.append(f"--kernel-module-type={kind}")
    elif kind == "open":
        options.append("--kernel-module-build-directory=kernel-open")
    options += ["--dkms"] if dkms else []
    options += ["--allow-installation-with-running-driver"] if state.loaded.driver else []
    how = "DKMS builds" if dkms else "the installer builds, for the running kernel only"
    text = f"install {version} from {runfile.location}, with {kind} kernel modules that {how}"
    params = {**runfile._asdict(), "version": version, "kind": kind, "options": options}
    taken = {"packages": {}, "runfile": have}
    over = Step("adopt", f"take over the driver {have} from NVIDIA's installer", taken)
    return (*([over] if have and not ours else []), Step("runfile", text, params))


def _check(state: DriverState, runfile: Runfile, *, refuse_unsigned: bool) -> None:
    """Refuse a node on which the installer would fail after it has begun."""
    if not state.software.runfile.present:
        expected = "a file that is there on the node"
        raise InputError.of("runfile.location", runfile.location, expected)
    if not state.machine.headers:
        raise NodeError(
            f"the headers of the running kernel {state.machine.kernel} are not installed",
            cause="NVIDIA's installer builds the kernel modules on the node",
            hint="install the distribution's package with them, then run again",
        )
    if state.software.runfile.missing:
        raise NodeError(
            f"the node has no {', '.join(state.software.runfile.missing)}",
            cause="NVIDIA's installer builds the kernel modules on the node",
            hint="install a compiler and make, then run again",
        )
    if state.machine.signing_key and refuse_unsigned:
        if not state.software.runfile.dkms:
            raise NodeError(
                state.machine.signing_key.enforcement.reason,
                cause="without DKMS the installer has no key to sign the modules with",
                hint=f"install dkms and enrol its key, or {state.machine.signing_key.enforcement.way_out}",
            )
        refuse_key(state.machine.signing_key)
