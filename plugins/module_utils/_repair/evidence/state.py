# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs that evidence is about, the archives that there are, and the options of a run."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..._base.text.strict import seconds, written
from ..case import RepairCases

BEFORE, AFTER, RMA = "before", "after", "rma"
NEVER, FULL = "never", "full"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ARCHIVE = re.compile(
    rf"({NAME.pattern})\.({BEFORE}|{AFTER}|{RMA})\.([0-9a-f]{{8}})\.(\d{{8}}T\d{{6}}Z)\.tar\.gz"
)


class EvidenceGpu(t.NamedTuple):
    """A GPU; what is not known of it is empty. ``facts`` are texts by the names of ``smi.FACTS``."""

    uuid: str = ""
    pci: str = ""
    facts: t.Mapping[str, str] = {}

    @property
    def serial(self) -> str:
        """Return its serial number."""
        return self.facts.get("serial", "")

    @property
    def answers(self) -> bool:
        """Whether nvidia-smi has answered for it: a case knows no more than its serial number."""
        return len(self.facts) > 1

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
        made = self.made
        return f"{made[:4]}-{made[4:6]}-{made[6:11]}:{made[11:13]}:{made[13:]}"

    def of_same(self, archives: t.Iterable[Archive]) -> t.List[Archive]:
        """Return those of the same case and stage, in the same boot."""
        return [archive for archive in archives if archive[:3] == self[:3]]

    @classmethod
    def from_file(cls, file: str) -> t.Optional[Archive]:
        """Return the archive with this name, None where it is no archive's."""
        match = ARCHIVE.fullmatch(file)
        return cls(*match.groups()) if match else None


class Earlier(t.NamedTuple):
    """An archive of before that has a GPU, with its bytes and the GPUs as they were then."""

    archive: Archive
    size: int
    gpus: t.Tuple[EvidenceGpu, ...]


class Part(t.NamedTuple):
    """A file of an archive, with its bytes; ``note`` is what there is to say of it."""

    name: str
    size: int
    note: str = ""


class Missing(t.NamedTuple):
    """A part that is not there, and why."""

    part: str
    reason: str


class EvidenceState(t.NamedTuple):
    """The GPUs, their cases and the archives.

    ``cases_problem`` is why the cases are not known. ``silent`` are the addresses of GPUs on the PCI bus that
    nvidia-smi does not tell of. ``archives`` are in the order of their times, ``named`` those that an open case names.
    """

    gpus: t.Tuple[EvidenceGpu, ...]
    silent: t.FrozenSet[str]
    cases: RepairCases
    cases_problem: str
    boot: str
    archives: t.Tuple[Archive, ...]
    named: t.FrozenSet[str]


class EvidenceOptions(t.NamedTuple):
    """The options of a run. Times are in seconds, ``since`` in those since 1970, None for the default."""

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
    def from_params(cls, params: t.Mapping[str, t.Any]) -> EvidenceOptions:
        """Return the options of the module's parameters.

        Raises:
            InputError: if a value can't be used.
        """
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
        try:
            begin = seconds(since) if since else None
        except ValueError:
            expected = f"a time in UTC such as {written(0)}"
            raise InputError.of("kernel_log_since", since, expected) from None
        values = {name: params[name] for name in cls._fields if name != "since"}
        values.update(gpus=tuple(params["gpus"]), path=path.rstrip("/"), since=begin)
        return cls(**values)


def join_gpus(
    answering: t.Iterable[EvidenceGpu], bus: t.Iterable[str], cases: RepairCases
) -> t.Tuple[EvidenceGpu, ...]:
    """Return the GPUs of the node in the order of their PCI addresses, and behind them those that only cases have.

    ``answering`` are those that nvidia-smi tells of, ``bus`` the addresses on the PCI bus.
    """

    def of_case(uuid: str, address: str) -> EvidenceGpu:
        case = cases.gpus.get(uuid)
        return EvidenceGpu(uuid, address, {"serial": case.serial} if case and case.serial else {})

    gpus = {gpu.pci: gpu for gpu in answering}
    case_at = {case.pci: uuid for uuid, case in cases.gpus.items() if case.pci and case.is_open}
    for address in bus:
        gpus.setdefault(address, of_case(case_at.get(address, ""), address))
    known = {gpu.uuid for gpu in gpus.values()}
    absent = [of_case(uuid, case.pci) for uuid, case in cases.gpus.items() if uuid not in known]
    return (*(gpus[address] for address in sorted(gpus)), *absent)
