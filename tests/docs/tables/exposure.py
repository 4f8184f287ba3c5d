# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the units may do, from their own texts, and systemd's measure of it, for docs/security.md."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._driver.kernel import device_nodes
from ansible_collections.gpu.node.plugins.module_utils._host import boot as host_boot
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import exporter
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.state import Exporter
from gpu_plugin._shared._base.services.mig import UNIT as MIG_UNIT
from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin._shared._mig import boot as mig_boot
from gpu_plugin._shared._mig import label as mig_label
from gpu_plugin._shared._settings import boot as settings_boot

from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/security.md"
MARKS = ("<!-- units: written by make docs-tables -->", "<!-- units: end -->")
SYSTEMD = 252  # the figures of the page are this version's; others weigh a little differently
# As the role's defaults have it: it maps pods.
EXPORTER = Exporter(
    *("/srv/dcgm-exporter", "0" * 64, "", "", "127.0.0.1:9400", True, "uid", True, (), "", 30)
)
FOLDER = REPOSITORY / "files/gpu_plugin/systemd"


def units() -> dict[str, str]:
    """Return the text of each service that a node may have, by its name."""
    found = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.service"))}
    found |= {MIG_UNIT: mig_boot.UNIT_TEXT, cdi_boot.UNIT: cdi_boot.SERVICE_TEXT}
    found[settings_boot.UNIT] = settings_boot.SERVICE_TEXT
    found[mig_label.UNIT] = mig_label.UNIT_TEXT
    found[device_nodes.UNIT] = device_nodes.UNIT_TEXT
    found[host_boot.UNIT] = host_boot.UNIT_TEXT
    return {**found, exporter.UNIT: exporter.files(EXPORTER, "")[exporter.UNIT_FILE]}


def version() -> int:
    """Return systemd's version on this machine; 0 where it has none that can measure a file."""
    if shutil.which("systemd-analyze") is None:
        return 0
    words = ["systemd-analyze", "--version"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    number = int(told.split()[1])
    return number if number >= 250 else 0  # --offline came then


@cache
def exposure(name: str) -> float:
    """Return systemd's measure of what the unit may do, from 0 to 10."""
    return measure(name, units()[name])


def measure(name: str, text: str) -> float:
    """Return systemd's measure of what a unit with this text may do, from 0 to 10."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return float(told.rpartition(".service: ")[2].split()[0])


def setting(name: str, key: str) -> list[str]:
    """Return the words of a unit's setting, ``none`` where it is there and empty."""
    lines = [line for line in units()[name].splitlines() if line.startswith(f"{key}=")]
    words = [word for line in lines for word in line.partition("=")[2].split()]
    return words or (["none"] if lines else [])


def table() -> str:
    """Return the page's table."""
    rows = [
        "| Unit | Capabilities | Sockets | May write | Exposure |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in units():
        rows.append(
            f"| `{name}` | {_capabilities(name)} | {_sockets(name)} | {_writes(name)} "
            f"| {exposure(name)} |"
        )
    return "\n".join(rows) + "\n"


def _capabilities(name: str) -> str:
    words = setting(name, "CapabilityBoundingSet")
    return ", ".join(one.removeprefix("CAP_") for one in words) or "all"


def _sockets(name: str) -> str:
    words = setting(name, "RestrictAddressFamilies")
    found = {"AF_UNIX": "Unix", "AF_INET": "IP", "AF_INET6": "IP", "AF_NETLINK": "netlink"}
    shown = ", ".join(dict.fromkeys(found[one] for one in words)) or "all"
    return f"{shown}, no address" if setting(name, "IPAddressDeny") and "IP" in shown else shown


def _writes(name: str) -> str:
    if setting(name, "ProtectSystem") != ["strict"]:
        return "what root may write"
    folders = [f"/run/{one}" for one in setting(name, "RuntimeDirectory")]
    folders += [f"/etc/{one}" for one in setting(name, "ConfigurationDirectory")]
    folders += [f"/var/lib/{one}" for one in setting(name, "StateDirectory")]
    folders += [one.lstrip("-") for one in setting(name, "ReadWritePaths")]
    written = ", ".join(f"`{one}`" for one in folders)
    other = {device_nodes.UNIT: "device nodes", host_boot.UNIT: "`/sys`, `/proc/sys`"}
    return written or other.get(name, "nothing")


def shown() -> str:
    """Return the table that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    begin, end = text.index(MARKS[0]), text.index(MARKS[1])
    return text[begin + len(MARKS[0]) : end].strip() + "\n"


def write() -> None:
    """Write the table into the page."""
    text = PAGE.read_text()
    PAGE.write_text(text.replace(shown(), table()))


if __name__ == "__main__":
    if version() != SYSTEMD:
        sys.exit(f"systemd {SYSTEMD} measures the page's figures, as Debian 12 has it")
    write()
    print(json.dumps({name: exposure(name) for name in units()}, indent=1))
