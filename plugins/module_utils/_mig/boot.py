# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What makes a MIG layout survive a reboot: a file with the layout, and a unit that applies it."""

from __future__ import annotations

import json
import typing as t

from .._base.boot import BEFORE, PROGRAM, SANDBOX, Boot
from .._base.errors import InputError, readable
from .._base.services.mig import STATUS, UNIT
from .._base.text import json_data
from .config import Selection, names, select

CONFIG = "/etc/gpu-node/mig.json"
# Seconds without any progress after which the unit counts as started, so that a broken driver does not keep a node from
# its other work; what hangs is ended later.
PATIENCE = 16
# Ordering only: the unit starts nothing and nothing requires it, so that it can deadlock nothing. The program waits for
# NVIDIA's own services itself, since those may take longer than a kubelet is to wait.
UNIT_TEXT = f"""\
# Written by gpu.node.mig.
[Unit]
Description=Partition NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service
Before={BEFORE}
Before=nvidia-dcgm.service dcgm.service nvidia-dcgm-exporter.service dcgm-exporter.service
Before=nvidia-cdi-refresh.service slurmd.service
ConditionPathExists={CONFIG}

[Service]
Type=notify
RemainAfterExit=yes
ExecStart={PROGRAM} mig --config {CONFIG} --status {STATUS} --patience {PATIENCE}
TimeoutStartSec=180
RuntimeMaxSec=900
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes

{SANDBOX}
[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: UNIT_TEXT}
BOOT = Boot(CONFIG, UNIT, "partitions the GPUs at boot", "boot", status=STATUS)


class Declared(t.NamedTuple):
    """What the user has declared. ``by_label``: the node's label may name another layout of ``config``."""

    config: t.Any
    selected: str
    by_label: bool = False

    def selection(self, chosen: str = "") -> Selection:
        """Return the layout that holds; ``chosen`` is what the label asked for last. InputError.

        Where nothing is selected and the label has not chosen yet, it is one without entries.
        """
        if self.by_label and chosen in names(self.config):
            return Selection.of(self.config, chosen)
        several = len(names(self.config)) > 1
        if self.by_label and not self.selected and several:
            select(self.config, names(self.config)[0])  # checks all of it
            return Selection("", [])
        return Selection.of(self.config, self.selected)


def dump(config: t.Any, selected: str, by_label: bool = False) -> str:
    """Return the file's text. InputError: nobody could read it again."""
    data = {"config": config, "selected": selected, **({"by_label": True} if by_label else {})}
    text = json.dumps(data, indent=1, sort_keys=True) + "\n"
    if len(text) > json_data.LONGEST:
        raise InputError.of("config", config, f"at most {json_data.LONGEST >> 10} KiB of JSON")
    return text


def load(text: str, path: str) -> Declared:
    """Return what is declared from the file's text. NodeError: it is damaged."""
    with readable(path, "run gpu.node.mig again, which writes it"):
        data = json_data.loads(text)
        return Declared(data["config"], str(data["selected"]), data.get("by_label") is True)
