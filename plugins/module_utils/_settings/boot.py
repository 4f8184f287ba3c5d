# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file with the rules, and the units that set GPUs again that have lost their settings."""

from __future__ import annotations

import json
import typing as t

from .._base.boot import BEFORE, PROGRAM, SANDBOX, Boot
from .._base.errors import readable
from .._base.services import settings
from .._base.services.driver import SERVICE
from .._base.services.mig import STATUS as MIG_STATUS
from .._base.services.mig import UNIT as MIG_UNIT
from .._base.text import json_data, strict
from .rules import Rule, parse

CONFIG = settings.CONFIG
UNIT, PATH_UNIT = "gpu-settings.service", "gpu-settings.path"
SEEN = "/run/gpu-node/settings.json"
VERSION, MOST_GPUS = 1, 1024
PATIENCE = 8  # as for CDI, beside which it runs
# Ordering only, as for MIG. The persistence daemon holds GPUs open, so it is stopped for another load of the driver and
# for a reset, and started after them. The unit ends when it has set the GPUs, so that it can be started again.
SERVICE_TEXT = f"""\
# Written by gpu.node.settings.
[Unit]
Description=Set NVIDIA GPUs again that have lost what they were set to (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service {MIG_UNIT}
Before={BEFORE}
Before=slurmd.service
ConditionPathExists={CONFIG}
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={PROGRAM} settings --config {CONFIG} --patience {PATIENCE}
TimeoutStartSec=180
RuntimeMaxSec=900
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
StateDirectory=gpu-node

{SANDBOX}
[Install]
WantedBy=multi-user.target {SERVICE}
"""
PATH_TEXT = f"""\
# Written by gpu.node.settings.
[Unit]
Description=Notice that a MIG layout was made, which may have reset GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node

[Path]
PathChanged={MIG_STATUS}

[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: SERVICE_TEXT, PATH_UNIT: PATH_TEXT}
BOOT = Boot(CONFIG, UNIT, "sets the GPUs again", "boot or load of the driver", PATH_UNIT)


def dump(rules: t.Sequence[t.Any]) -> str:
    """Return the file's text."""
    return json.dumps({"rules": list(rules)}, indent=1, sort_keys=True) + "\n"


def load(text: str, path: str) -> t.Tuple[t.List[t.Any], t.Tuple[Rule, ...]]:
    """Return the rules as the file has them, and parsed.

    Raises:
        NodeError: if the file is damaged.
    """
    with readable(path, "run gpu.node.settings again, which writes it"):
        rules = json_data.loads(text)["rules"]
        return rules, parse(rules)


class Mark(t.NamedTuple):
    """The state by which it is known whether a GPU may have lost its settings.

    ``load`` is that of the driver, ``daemon`` the start of the persistence daemon, ``mig`` the MIG mode, and ``energy``
    that used by the GPU, in millijoules.
    """

    load: str = ""
    daemon: str = ""
    mig: bool = False
    energy: t.Optional[int] = None

    def since(self, before: t.Optional[Mark]) -> str:
        """Return what has happened since ``before``, empty for nothing; None is no mark of this boot."""
        if before is None:
            return "it was not set since the boot"
        if self.load != before.load:
            return "the driver was loaded"
        if self.mig != before.mig:
            return "its MIG mode was switched"
        if self.daemon != before.daemon:
            return f"{SERVICE} was started"
        if None not in (self.energy, before.energy) and self.energy < before.energy:  # type: ignore[operator]
            return "it was reset"
        return ""


def dump_seen(marks: t.Mapping[str, Mark]) -> str:
    """Return the text of the file with the marks of GPUs when they were set last."""
    gpus = {uuid: mark._asdict() for uuid, mark in marks.items()}
    return json.dumps({"version": VERSION, "gpus": gpus}, indent=1, sort_keys=True) + "\n"


def load_seen(text: t.Optional[str]) -> t.Dict[str, Mark]:
    """Return the marks of GPUs when they were set last, by their UUIDs.

    Raises:
        NodeError: if the file is damaged.
    """
    if text is None:
        return {}
    with readable(SEEN, "remove it; the next start of the unit then sets all GPUs"):
        data = strict.keys("the file", json_data.loads(text), "version", "gpus")
        strict.version(data["version"], VERSION)
        rows = strict.by_uuid("gpus", data["gpus"], MOST_GPUS, "GPUs")
        return {uuid: _mark(uuid, row) for uuid, row in rows.items()}


def _mark(uuid: str, data: object) -> Mark:
    row = strict.keys(uuid, data, *Mark._fields)
    if not isinstance(row["mig"], bool):
        raise ValueError(f"{uuid}: mig is neither true nor false")
    if row["energy"] is not None and not json_data.is_whole(row["energy"]):
        raise ValueError(f"{uuid}: energy is no whole number")
    for name in ("load", "daemon"):
        strict.text(name, row[name])
    return Mark(**row)
