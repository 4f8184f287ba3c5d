# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the host is set to, and the file with what was added and what there was before."""

from __future__ import annotations

import json
import re
import typing as t

from .._base.errors import readable
from .._base.text import json_data, strict
from .._base.text.kernel_parameters import split
from .._base.text.shown import shown
from .command_line import Words
from .live import is_known

PATH = "/var/lib/gpu-node/host.json"
VERSION = 1
MOST_WORDS = 64
MOST_VALUES = 8192
VALUE = re.compile(r"[a-z0-9_]{1,32}")
FORGET = "move it away and run again; what the host is set to then counts as your own"


class CommandLine(t.NamedTuple):
    """What was added to the kernel's command line, what that has replaced, and in which boot."""

    added: Words = ()
    replaced: Words = ()
    boot: str = ""

    def merged_with(self, other: CommandLine) -> CommandLine:
        """Return the options of both, which the record has while one is being replaced by the other."""
        added = tuple(dict.fromkeys((*self.added, *other.added)))
        replaced = tuple(dict.fromkeys((*self.replaced, *other.replaced)))
        return CommandLine(added, replaced, other.boot)


class HostRecord(t.NamedTuple):
    """What is remembered; ``values`` are those of the kernel as they were before."""

    command_line: CommandLine = CommandLine()
    values: t.Mapping[str, str] = {}


class Iommu(t.NamedTuple):
    """What the kernel is booted with, and will be.

    ``loader`` is the boot loader's name, empty if it is not known and then ``why``; ``replaces`` tells that it has
    one word of a name only. ``in_force`` is pt, on, off or unknown. ``noted`` is what was said of a reboot to come,
    ``none`` that the firmware tells of no IOMMU, ``lost`` that kernels to come would be booted without what was added.
    """

    loader: str = ""
    why: str = ""
    replaces: bool = False
    written: Words = ()
    running: Words = ()
    in_force: str = ""
    noted: Words = ()
    boot: str = ""
    none: bool = False
    lost: bool = False


def dump(record: HostRecord) -> str:
    """Return the file's text."""
    data: t.Dict[str, t.Any] = {"version": VERSION, "command_line": record.command_line._asdict()}
    data["values"] = dict(record.values)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def parse(text: t.Optional[str]) -> HostRecord:
    """Return what the file has.

    Raises:
        NodeError: if it can't be understood.
    """
    if text is None:
        return HostRecord()
    with readable(PATH, FORGET):
        data = strict.keys("the file", json_data.loads(text), "version", "command_line", "values")
        strict.version(data["version"], VERSION)
        row = strict.keys("command_line", data["command_line"], *CommandLine._fields)
        added, replaced = (_options(name, row[name]) for name in ("added", "replaced"))
        line = CommandLine(added, replaced, strict.text("boot", row["boot"]))
        return HostRecord(line, _values(data["values"]))


def _options(name: str, value: object) -> Words:
    options = [strict.text(name, option) for option in strict.listed(name, value, MOST_WORDS)]
    if not all(split(option) == (option,) for option in options):
        raise ValueError(f"{name}: expected options of the kernel")
    return tuple(options)


def _values(data: object) -> t.Dict[str, str]:
    if not isinstance(data, dict) or len(data) > MOST_VALUES:
        raise ValueError(f"values: expected at most {MOST_VALUES} by their files")
    for name, value in data.items():
        if not VALUE.fullmatch(strict.text(name, value)) or not is_known(name):
            raise ValueError(f"values: {shown(name)} is not one that is set here")
    return data
