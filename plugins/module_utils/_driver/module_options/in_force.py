# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in force of the options: what the loaded modules show, and what modprobe gives them at the next load."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..._base.text import kernel_parameters
from .declared import Options, called
from .known import TABLE
from .values import alike

MODPROBE_FILE = "/etc/modprobe.d/gpu-node.conf"
SHOWN = {option.shown: name for name, option in TABLE.items() if option.shown}
PARAMETER = re.compile(r"^parm:\s+(\w+):", re.M)
VERSION = re.compile(r"^version:\s+(\S+)$", re.M)


class Other(t.NamedTuple):
    """A value that something else sets and that wins at the next load, and where: a file, or the command line."""

    value: str
    place: str


def parse_params(text: str) -> t.Dict[str, str]:
    """Return the options that the loaded driver shows in its own words, named as users name them."""
    pairs = (line.split(":", 1) for line in text.split("\n") if ":" in line)
    named = ((key.strip(), value.strip().strip('"')) for key, value in pairs)
    return {SHOWN.get(key, f"nvidia.NVreg_{key}"): value for key, value in named}


def parse_modinfo(module: str, text: str) -> t.Dict[str, str]:
    """Return the options that a module on the disk has by modinfo, each with its version."""
    version = VERSION.search(text)
    return dict.fromkeys(
        (f"{module}.{name}" for name in PARAMETER.findall(text)), version[1] if version else ""
    )


def differing(
    options: Options, loaded: t.Mapping[str, str], overruling: t.Mapping[str, Other]
) -> t.List[str]:
    """Return which options the loaded modules have otherwise, unless another load gives them the same again.

    What they do not show is not known.
    """
    return [
        f"{called(name)} is {loaded[name] or 'not set'}, not {value}"
        for name, value in options
        if name in loaded and not alike(loaded[name], value) and name not in overruling
    ]


def parse_own(text: str) -> t.Dict[str, str]:
    """Return the options in our modprobe file, named as users name them."""
    return {name: value for line in text.split("\n") for name, value in _of_line(line)}


def changed(
    options: Options, written: t.Mapping[str, str], before: t.Mapping[str, str]
) -> t.Dict[str, str]:
    """Return the options that have changed since the modules were loaded, with their values then.

    ``written`` is what our file has had, ``before`` what had changed already when that was written.
    """
    desired, earlier = dict(options), {**written, **before}
    return {
        option: earlier.get(option, "")
        for option in sorted({*desired, *earlier})
        if not alike(earlier.get(option, ""), desired.get(option, ""))
    }


def unseen(
    options: Options, changed_values: t.Mapping[str, str], loaded: t.Mapping[str, str]
) -> t.List[str]:
    """Return which options have changed since the load, of those whose difference the loaded modules do not show."""
    desired, result = dict(options), []
    for name, value in changed_values.items():
        if name in desired and name not in loaded:
            result.append(f"{called(name)} must be {desired[name]}")
        elif name not in desired and alike(loaded.get(name, value), value):
            result.append(f"{called(name)} is still {value}, which nothing sets any more")
    return result


def overruled(
    options: Options, texts: t.Mapping[str, str], command_line: str
) -> t.Dict[str, Other]:
    """Return the options that something else sets otherwise: the last one counts, and files are read by their names.

    ``texts`` are those of modprobe's files by their paths, where several have one name those of the one that counts.
    """
    desired, own = dict(options), posixpath.basename(MODPROBE_FILE)
    overruling: t.Dict[str, Other] = {}
    for path in sorted(texts, key=posixpath.basename):
        if posixpath.basename(path) <= own:
            continue
        for line in texts[path].replace("\\\n", " ").split("\n"):
            overruling.update((option, Other(value, path)) for option, value in _of_line(line))
    for parameter in kernel_parameters.parse(command_line):
        module, dot, option = parameter.name.partition(".")
        if dot:
            name = f"{_module(module)}.{option}"
            overruling[name] = Other(parameter.value or "", "the kernel's command line")
    return {
        option: other
        for option, other in overruling.items()
        if option in desired and not alike(other.value, desired[option])
    }


def in_words(
    options: Options, overruling: t.Mapping[str, Other], loaded: t.Mapping[str, str]
) -> t.Tuple[str, ...]:
    """Return the warnings about options that something else overrules, now or at the next load."""
    desired, messages = dict(options), []
    for option, (value, place) in overruling.items():
        setting, there = f"{called(option)}={desired[option]}", loaded.get(option, desired[option])
        if alike(there, desired[option]):
            messages.append(
                f"{setting} is lost at the next load: {place} sets {value}. Next step: remove it there"
            )
        else:
            messages.append(
                f"{setting} is not in force: it is {there}, as {place} sets {value}, which wins. Next step: remove it "
                "there, then run again"
            )
    return tuple(messages)


def _of_line(line: str) -> t.List[t.Tuple[str, str]]:
    """Return the options of a line of modprobe.d, named as users name them."""
    directive, module, parameters = [*line.split(None, 2), "", "", ""][:3]
    if directive != "options":
        return []
    return [
        (f"{_module(module)}.{parameter.name}", parameter.value or "")
        for parameter in kernel_parameters.parse(parameters)
    ]


def _module(name: str) -> str:
    """Return the name of a module, as the kernel has it; Debian's have names of their own."""
    return name.replace("-", "_").replace("nvidia_current", "nvidia", 1)
