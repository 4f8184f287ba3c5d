# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What evidence is about, what is asked for, and which archives there are."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..._base.text.strict import seconds, written
from ..case import RepairCases

FOLDER = "/var/lib/gpu-node/evidence"
BEFORE, AFTER, RMA = "before", "after", "rma"
NEVER, SAFE, FULL = "never", "safe", "full"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ARCHIVE = re.compile(
    rf"({NAME.pattern})\.({BEFORE}|{AFTER}|{RMA})\.([0-9a-f]{{8}})\.(\d{{8}}T\d{{6}}Z)\.tar\.gz"
)
NO_BOOT = "00000000"
DAY = 24 * 3600.0


class Gpu(t.NamedTuple):
    """A GPU; what is not known of it is empty. ``facts`` are texts by the names of ``smi.FACTS``."""

    uuid: str = ""
    pci: str = ""
    facts: t.Mapping[str, str] = {}

    @property
    def serial(self) -> str:
        """Return its serial number."""
        return self.facts.get("serial", "")

    def __str__(self) -> str:
        """Return it as users are told of it."""
        return self.uuid or self.pci


class Archive(t.NamedTuple):
    """An archive by its file's name; ``boot`` are the first 8 digits of the boot's ID, ``made`` is in UTC."""

    case: str
    stage: str
    boot: str
    made: str

    @property
    def stem(self) -> str:
        """Return the name without its ending, which is that of the folder in it."""
        return ".".join(self)

    @property
    def file(self) -> str:
        """Return the file's name."""
        return f"{self.stem}.tar.gz"

    @property
    def at(self) -> str:
        """Return when it was made, as other files of ours have times."""
        found = self.made
        return f"{found[:4]}-{found[4:6]}-{found[6:11]}:{found[11:13]}:{found[13:]}"

    def of_same(self, archives: t.Iterable[Archive]) -> t.List[Archive]:
        """Return those of the same case and stage, in the same boot."""
        return [one for one in archives if one[:3] == self[:3]]

    @classmethod
    def of(cls, file: str) -> t.Optional[Archive]:
        """Return the archive with this name, None where it is no archive's."""
        found = ARCHIVE.fullmatch(file)
        return cls(*found.groups()) if found else None


class Wanted(t.NamedTuple):
    """What the user asks for. Times are in seconds, ``since`` in those since 1970, None for the default."""

    gpus: t.Tuple[str, ...]
    path: str
    case: str
    stage: str
    force: bool
    keep: int
    bug_report: str
    bug_report_timeout: int
    since: t.Optional[float]
    dcgm: bool

    @classmethod
    def of(cls, params: t.Mapping[str, t.Any]) -> Wanted:
        """Return it from the module's parameters. InputError: a value can't be used."""
        path, case, since = params["path"], params["case"], params["kernel_log_since"]
        if not path.startswith("/") or not path.strip("/"):
            raise InputError.of("path", path, "the absolute path of a folder")
        if case and not NAME.fullmatch(case):
            expected = (
                "at most 100 letters, digits, dots, dashes and underscores, a letter or digit first"
            )
            raise InputError.of("case", case, expected)
        for option in ("keep", "bug_report_timeout"):
            if params[option] < 1:
                raise InputError.of(option, params[option], "a number of 1 or more")
        return cls(
            tuple(params["gpus"]),
            path.rstrip("/"),
            case,
            params["stage"],
            params["force"],
            params["keep"],
            params["bug_report"],
            params["bug_report_timeout"],
            _since(since) if since else None,
            params["dcgm"],
        )


def _since(text: str) -> float:
    try:
        return seconds(text)
    except ValueError:
        expected = f"a time in UTC such as {written(0)}"
        raise InputError.of("kernel_log_since", text, expected) from None


class Observed(t.NamedTuple):
    """What was found.

    ``cases_problem`` is why the cases are not known. ``silent`` are the addresses of GPUs on the PCI bus that
    nvidia-smi does not tell of. ``archives`` are in the order of their times, ``named`` those that an open case names.
    """

    gpus: t.Tuple[Gpu, ...]
    silent: t.FrozenSet[str]
    cases: RepairCases
    cases_problem: str
    boot: str
    archives: t.Tuple[Archive, ...]
    named: t.FrozenSet[str]


class Part(t.NamedTuple):
    """A file of an archive, with its bytes; ``note`` is what there is to say of it."""

    name: str
    size: int
    note: str = ""


class Missing(t.NamedTuple):
    """A part that is not there, and why."""

    part: str
    reason: str
