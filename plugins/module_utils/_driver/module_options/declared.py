# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The options of kernel modules that users declare: which there are, what they take, and which release has them."""

from __future__ import annotations

import difflib
import re
import typing as t

from ..._base.errors import InputError
from ..branches import Version
from .known import LAST, NEWEST, OLDEST, TABLE
from .values import ANY

MODULES = ("nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_uvm")
Options = t.Tuple[t.Tuple[str, str], ...]
KEY = "module_options"


def parse(values: t.Optional[t.Mapping[str, t.Any]]) -> Options:
    """Return the options as (module.option, value) in order.

    Raises:
        InputError: if one is not valid; it names the option.
    """
    parsed: t.Dict[str, str] = {}
    for key, value in (values or {}).items():
        module, dot, option = str(key).rpartition(".")
        module = module.replace("-", "_") if dot else "nvidia"
        if module not in MODULES or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", option):
            raise InputError.of(
                KEY,
                key,
                f"an option such as NVreg_EnableGpuFirmware, or one of {', '.join(MODULES)} with "
                "its option, such as nvidia_drm.modeset",
            )
        name = f"{module}.{option}"
        kind = TABLE[name].kind if name in TABLE else ANY
        text = kind.written(str(int(value)) if isinstance(value, bool) else str(value))
        if text is None:
            raise InputError.of(f"{KEY}.{key}", value, kind.expected)
        if name in parsed:
            raise InputError.of(KEY, key, f"{name} once only")
        parsed[name] = text
    numa = "nvidia.NVreg_EnableUserNUMAManagement"
    if (
        parsed.get("nvidia.NVreg_CoherentGPUMemoryMode") == "driver"
        and parsed.get(numa, "0") != "0"
    ):
        expected = "0, to which NVreg_CoherentGPUMemoryMode=driver sets it"
        raise InputError.of(f"{KEY}.{called(numa)}", parsed[numa], expected)
    return tuple(sorted(parsed.items()))


def judge(
    options: Options, version: Version, kind: str, itself: t.Mapping[str, str]
) -> t.Tuple[str, ...]:
    """Return the warnings about options.

    ``version`` may be a branch, and empty if that is not known yet. ``kind`` is the type of the kernel modules,
    ``itself`` names options that a module on the node says that it has, with its version.

    Raises:
        InputError: if a release of the driver does not have an option.
    """
    warnings: t.List[str] = []
    version = Version(version)
    for name, value in options:
        there = itself.get(name)
        if there is None or not Version(there).fits(version):
            warnings += _unknown(name, value, version)
        option = TABLE.get(name)
        if option and option.note and (not version or covers(option.noted, version)):
            warnings.append(f"{KEY}.{called(name)}: {option.note}")
        elif option and option.only not in ("", kind):
            warnings.append(f"{KEY}.{called(name)}: the {kind} kernel modules ignore it")
    return tuple(warnings)


def covers(ranges: str, version: Version) -> bool:
    """Return whether a release, or one of a branch, is in ranges of releases."""
    for part in ranges.split(" "):
        low, _dash, high = (Version(text) for text in part.partition("-"))
        branch = version.numbers[:1] == version.numbers
        since = version.branch >= low.branch if branch else version.numbers >= low.numbers
        until = not high or version.fits(high) or version.numbers <= high.numbers
        if since and until:
            return True
    return False


def in_words(ranges: str) -> str:
    """Return ranges of releases for users."""
    phrases = []
    for part in ranges.split(" "):
        low, _dash, high = part.partition("-")
        if low == high:
            phrases.append(low)
        elif low and high:
            phrases.append(f"{low} to {high}")
        else:
            phrases.append(f"{low} and later" if low else f"{high} and earlier")
    return ", ".join(filter(None, phrases)) or f"{OLDEST} and later"


def called(name: str) -> str:
    """Return an option's name as users write it; options of nvidia itself need no module."""
    return name[len("nvidia.") :] if name.startswith("nvidia.") else name


def _unknown(name: str, value: str, version: Version) -> t.List[str]:
    """Return the warning about an option that a release may not have, nothing if it has it."""
    known = TABLE.get(name)
    read = version.branch in LAST and version.numbers <= Version(LAST[version.branch]).numbers
    if known is not None:
        if read and not covers(known.branches, version):
            expected = f"an option that the driver {version} has: this one is in {in_words(known.branches)}"
            hint = "leave it out for this node, or ask for another version"
            raise _refusal(name, value, expected, hint)
        return []
    near = difflib.get_close_matches(name, TABLE, 1)
    meant = f"did you mean {called(near[0])}?" if near else "no other name is near"
    if version and not read:
        return [
            f"{KEY}.{called(name)}: the options of {version} are not known here, and {OLDEST} to {NEWEST} have none of "
            f"that name: {meant} A module ignores an option that it does not have"
        ]
    module = name.partition(".")[0]
    expected = f"an option of {module} in {OLDEST} to {NEWEST}; {meant}"
    hint = f"correct the name; where a later driver has it, set version to that release, or to a branch after {NEWEST}"
    raise _refusal(name, value, expected, hint)


def _refusal(name: str, value: str, expected: str, hint: str) -> InputError:
    error = InputError.of(f"{KEY}.{called(name)}", value, expected)
    error.hint = hint
    return error
