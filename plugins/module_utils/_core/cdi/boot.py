# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What keeps the CDI specification up to date: a file with the options, and units that write it anew."""

from __future__ import annotations

import json
import posixpath
import typing as t

from ..errors import NodeError, damaged
from ..mig.boot import PROGRAM, SANDBOX
from ..mig.boot import STATUS as MIG_STATUS
from ..mig.boot import UNIT as MIG_UNIT
from ..steps import Step
from ..text import json_data
from ..text.shown import shown
from .generated import GENERATORS, NVML
from .wanted import Options

CONFIG = "/etc/gpu-node/cdi.json"
UNIT = "gpu-cdi.service"
PATH_UNIT = "gpu-cdi.path"
# Ordering only, as for MIG. The service ends when it is done, so that the path can start it again.
SERVICE_TEXT = f"""\
# Written by gpu.node.cdi.
[Unit]
Description=Generate the CDI specification of NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service nvidia-persistenced.service {MIG_UNIT}
Before=kubelet.service containerd.service docker.service crio.service gpu-device-plugin.service
ConditionPathExists={CONFIG}
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={PROGRAM} cdi --config {CONFIG}
TimeoutStartSec=180
# Both folders that container runtimes read.
ConfigurationDirectory=cdi
RuntimeDirectory=gpu-node cdi
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes

{SANDBOX}
[Install]
WantedBy=multi-user.target
"""
# The kernel tells of nothing in /proc: nodes come and go with the module and with MIG devices, and
# the loader's cache is written anew when a package brings other libraries. A specification that
# names a hook which is gone would let no container start.
PATH_TEXT = f"""\
# Written by gpu.node.cdi.
[Unit]
Description=Notice changes of the NVIDIA driver and of MIG layouts (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node

[Path]
PathChanged=/dev/nvidia-caps
PathChanged=/dev/nvidiactl
PathChanged=/etc/ld.so.cache
PathChanged=/usr/bin/nvidia-cdi-hook
PathChanged={MIG_STATUS}

[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: SERVICE_TEXT, PATH_UNIT: PATH_TEXT}
FOLDERS = ("/etc/cdi", "/run/cdi", "/var/run/cdi")


class Boot(t.NamedTuple):
    """What the node has of it: the texts of the files, and systemd's view of the units."""

    config: t.Optional[str]
    units: t.Mapping[str, t.Optional[str]]
    services: t.Mapping[str, t.Mapping[str, str]]
    program: bool


def unit_file(unit: str) -> str:
    """Return where a unit is written."""
    return f"/etc/systemd/system/{unit}"


def texts(options: Options) -> t.Dict[str, str]:
    """Return the units' texts; a specification in a folder of the user's own can be written too."""
    folder = posixpath.dirname(options.path)
    if folder in FOLDERS:
        return TEXTS
    quoted = folder.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    line = f'ReadWritePaths="-{quoted}"\n'
    return {**TEXTS, UNIT: SERVICE_TEXT.replace("\n[Install]", f"{line}\n[Install]")}


def dump(options: Options) -> str:
    """Return the file's text."""
    return json.dumps(options._asdict(), indent=1, sort_keys=True) + "\n"


def load(text: str, path: str) -> Options:
    """Return the options from the file's text."""
    try:
        data = json_data.loads(text)
        return Options(
            str(data["path"]),
            str(data["hooks"]),
            tuple(map(str, data["library_folders"])),
            str(data["driver_root"]),
            _generator(data.get("generator", NVML)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error, "run gpu.node.cdi again, which writes it") from error


def _generator(value: t.Any) -> str:
    if value not in GENERATORS:
        raise ValueError(f"generator: {shown(value)} is not one of {', '.join(GENERATORS)}")
    return str(value)


def parse_show(text: str) -> t.Dict[str, t.Dict[str, str]]:
    """Return the properties of each unit from ``systemctl show`` with Id among them."""
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.split("\n\n")
    ]
    return {block["Id"]: block for block in blocks if "Id" in block}


def plan(boot: Boot, wanted: t.Optional[str], *, check_mode: bool) -> t.List[Step]:
    """Return the steps to the wanted file, or with None to none of it."""
    if wanted is None:
        there = boot.config is not None or any(one is not None for one in boot.units.values())
        names = f"{UNIT}, {PATH_UNIT} and {CONFIG}"
        return [Step("boot_remove", f"remove {names}")] if there else []
    steps = []
    if boot.config != wanted:
        steps.append(Step("boot_config", f"write {CONFIG}, for the next change", {"text": wanted}))
    for unit, text in texts(load(wanted, CONFIG)).items():
        if boot.units.get(unit) != text:
            params = {"unit": unit, "text": text}
            steps.append(Step("boot_unit", f"write {unit_file(unit)}", params))
    states = {unit: boot.services.get(unit, {}) for unit in TEXTS}
    on = all(one.get("UnitFileState") == "enabled" for one in states.values())
    if not on or states[PATH_UNIT].get("ActiveState") != "active":
        steps.append(Step("boot_enable", f"enable {UNIT}, enable and start {PATH_UNIT}"))
    if states[UNIT].get("ActiveState") == "failed":
        steps.append(Step("boot_forget", f"clear the failure of {UNIT}"))
    if steps and not boot.program and not check_mode:
        raise NodeError(
            f"{PROGRAM}, which keeps the specification up to date, is not on the node",
            hint="install it first (gpu.node.device_plugin with state installed), or set boot to false",
        )
    return steps
