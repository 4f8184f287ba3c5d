# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What keeps the CDI specification up to date: a file with the options, and units that regenerate it."""

from __future__ import annotations

import json
import posixpath
import typing as t

from .._base.boot import BEFORE, PROGRAM, SANDBOX, Boot
from .._base.errors import readable
from .._base.services.mig import STATUS as MIG_STATUS
from .._base.services.mig import UNIT as MIG_UNIT
from .._base.text import json_data
from .._base.text.shown import shown
from .capabilities import ALL, CAPABILITIES, DEFAULT
from .generated import GENERATORS, NVML

CONFIG = "/etc/gpu-node/cdi.json"
UNIT = "gpu-cdi.service"
PATH_UNIT = "gpu-cdi.path"
# Where the device plugin lists the device nodes. It has a folder of its own: what happens beside a file that another
# line of a path unit waits for makes systemd look anew, and forget what it has not seen yet.
NODES = "/run/gpu-node/nodes/list"
PATIENCE = 8  # as for MIG, which has taken its time before
# Ordering only, as for MIG. The service ends when it is done, so that the path can start it again.
SERVICE_TEXT = f"""\
# Written by gpu.node.cdi.
[Unit]
Description=Generate the CDI specification of NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service {MIG_UNIT}
Before={BEFORE}
ConditionPathExists={CONFIG}
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={PROGRAM} cdi --config {CONFIG} --patience {PATIENCE}
TimeoutStartSec=180
RuntimeMaxSec=900
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
# the loader's cache is rewritten when a package brings other libraries. A specification that
# names a hook which is gone would let no container start.
PATH_TEXT = f"""\
# Written by gpu.node.cdi.
[Unit]
Description=Notice changes of the NVIDIA driver and of MIG layouts (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node

[Path]
PathChanged=/dev/nvidia-caps
PathChanged={NODES}
PathChanged=/etc/ld.so.cache
PathChanged=/usr/bin/nvidia-cdi-hook
PathChanged={MIG_STATUS}

[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: SERVICE_TEXT, PATH_UNIT: PATH_TEXT}
BOOT = Boot(CONFIG, UNIT, "keeps the specification up to date", "change", PATH_UNIT)
FOLDERS = ("/etc/cdi", "/run/cdi", "/var/run/cdi")


class Options(t.NamedTuple):
    """What a user chooses: see the options of gpu.node.cdi."""

    path: str
    hooks: str = "auto"
    library_folders: t.Tuple[str, ...] = ()
    driver_root: str = "/"
    generator: str = NVML
    capabilities: t.Tuple[str, ...] = DEFAULT


def parse(values: t.Mapping[str, t.Any]) -> Options:
    """Return the options by their names; a file of an earlier release has no capabilities."""
    return Options(
        str(values["path"]),
        str(values["hooks"]),
        tuple(map(str, values["library_folders"])),
        str(values["driver_root"]),
        str(values["generator"]),
        tuple(values.get("capabilities", DEFAULT)),
    )


def texts(options: Options) -> t.Dict[str, str]:
    """Return the units' texts; a specification in a folder of the user's own can be written too."""
    folder = posixpath.dirname(options.path)
    if folder in FOLDERS:
        return TEXTS
    quoted = folder.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    line = f'ReadWritePaths="-{quoted}"\n'
    return {**TEXTS, UNIT: SERVICE_TEXT.replace("\n[Install]", f"{line}\n[Install]")}


def path(text: t.Optional[str]) -> str:
    """Return where a file's text says that the specification is, empty if it does not."""
    return str(json_data.table_in(text).get("path", ""))


def dump(options: Options) -> str:
    """Return the file's text."""
    return json.dumps(options._asdict(), indent=1, sort_keys=True) + "\n"


def load(text: str, path: str) -> Options:
    """Return the options from the file's text."""
    with readable(path, "run gpu.node.cdi again, which writes it"):
        data = json_data.loads(text)
        generator, capabilities = data["generator"], data.get("capabilities", DEFAULT)
        if generator not in GENERATORS:
            raise ValueError(f"generator: {shown(generator)} is not one of {', '.join(GENERATORS)}")
        known = (*CAPABILITIES, ALL)
        for capability in capabilities:
            if capability not in known:
                raise ValueError(
                    f"capabilities: {shown(capability)} is not one of {', '.join(known)}"
                )
        return parse(data)
