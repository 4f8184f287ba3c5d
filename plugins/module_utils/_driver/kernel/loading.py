# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's part of the plan: nouveau, the modules' options, what is loaded, and the services."""

from __future__ import annotations

import typing as t

from ..._base.errors import refuse_masked
from ..._base.services.driver import FABRIC_SERVICE, SERVICE
from ..._base.steps import IDLE_GPU, Step
from ..._node.users import holders
from ..select import Choice
from ..state import Desired, Observed
from .modules import MODPROBE_FILE, blacklists, differing, render


class Look(t.NamedTuple):
    """How the loaded driver differs from the wanted one, and what comes of it.

    ``exchange`` says that the modules may be reloaded: asked for, and nobody is on a GPU. ``reboot``
    are the reasons for a reboot.
    """

    mismatch: str
    exchange: bool
    reboot: t.Tuple[str, ...]


def look(observed: Observed, desired: Desired, choice: Choice) -> Look:
    """Compare the loaded driver with the wanted one."""
    words = _mismatch(observed, desired, choice)
    if observed.nouveau:
        return Look(words, False, ("the nouveau driver holds the GPUs",))
    waits = observed.family.waits(observed, choice)
    if choice.boot:
        boot = f"the kernel {choice.boot} has the modules of {choice.version}"
        waits = f"{boot}, the running one has not"
    if waits and (choice.version, choice.kind) != observed.loaded:
        return Look(words, False, (waits,))
    if not words or desired.reload != "when_idle":
        return Look(words, False, (words,) if words else ())
    users = observed.users and f"processes have the GPUs open: {_users(observed)}"
    given = observed.allocated and f"pods have been given GPUs: {', '.join(observed.allocated)}"
    why = observed.reload_note or users or given
    if not why:
        return Look(words, True, ())
    return Look(words, False, (f"{words} (not reloaded: {why})",))


def _users(observed: Observed) -> str:
    """Return the processes in words, with what to do about services that nobody drains."""
    ways = holders.advice(observed.users)
    return f"{', '.join(map(str, observed.users))}" + (f"; {ways}" if ways else "")


def _mismatch(observed: Observed, desired: Desired, choice: Choice) -> str:
    if observed.loaded is None:
        return ""
    version, kind = observed.loaded
    if choice.version is not None and choice.version != version:
        return (
            f"version {version} of the driver is loaded, {choice.version} belongs to the packages"
        )
    if kind != choice.kind:
        return f"the {kind} kernel modules are loaded, the packages have the {choice.kind} ones"
    differences = differing(desired.module_options, observed.modules.options)
    words = f"the modules were loaded with other options: {', '.join(differences)}"
    return words if differences else ""


def plan(observed: Observed, desired: Desired, found: Look) -> t.List[Step]:
    """Return the steps, in their order; the services start where the driver is or gets loaded."""
    steps = _modprobe(observed, desired)
    usable = bool(observed.gpus) and not found.reboot
    if usable and desired.load and observed.loaded is None:
        waits = observed.family.builds and not desired.runfile
        steps.append(Step("load", "load the kernel module: modprobe nvidia", {"waits": waits}))
    if found.exchange:
        words = f"reload the kernel modules: {found.mismatch}"
        steps.append(Step("reload", words, needs=(IDLE_GPU,)))
    start = usable and (observed.loaded is not None or desired.load)
    # NVIDIA's installer brings the persistence daemon without a unit.
    if desired.persistence and (
        observed.names.persistenced or observed.service.get("UnitFileState")
    ):
        steps += _service("persistence", SERVICE, observed.service, start=start)
    if observed.nvswitch and observed.names.fabric:
        steps += _service("fabric", FABRIC_SERVICE, observed.fabric, start=start)
    return steps


def _modprobe(observed: Observed, desired: Desired) -> t.List[Step]:
    """Keep nouveau away from the GPUs and set the modules' options, in the initramfs as well.

    A blacklist of ours stays though the packages may have brought theirs: the kernel reads both.
    """
    have = observed.modules
    ours = have.own is not None and blacklists(have.own)
    # Another's blacklist does not help against an initramfs that was made before it.
    loose = have.nouveau and (observed.nouveau or not have.blacklisted)
    nouveau = ours or (bool(observed.gpus) and loose)
    current = observed.distribution == "debian"
    text = render(desired.module_options, nouveau=nouveau, current=current)
    changes = text != (have.own or "")
    kernels = have.images if changes else have.stale
    if not changes and not kernels and (text or not observed.record.modprobe):
        return []
    words = []
    if changes:
        parts = [
            "blacklist nouveau" if nouveau and not ours else "",
            "set the options of the modules" if desired.module_options else "",
        ]
        what = " and ".join(part for part in parts if part) or "remove the modules' options"
        words.append(f"{what} in {MODPROBE_FILE}")
    if kernels:
        words.append(f"rebuild the initramfs of {', '.join(kernels)}")
    params = {"text": text, "kernels": kernels}
    return [Step("modprobe", "; ".join(words) or "forget the modprobe file", params)]


def _service(action: str, unit: str, states: t.Mapping[str, str], *, start: bool) -> t.List[Step]:
    # Ubuntu's unit is static: udev starts it, and there is nothing to enable.
    enabled = states.get("UnitFileState") in ("enabled", "static")
    active = states.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    otherwise = "set persistence to false" if unit == SERVICE else ""
    refuse_masked(unit, states.get("UnitFileState", ""), otherwise)
    words = f"enable {'and start ' if start else ''}{unit}"
    return [Step(action, words, {"start": start, "was_enabled": enabled})]
