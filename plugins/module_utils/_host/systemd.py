# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd tells of a unit."""

from __future__ import annotations

import typing as t

from .api import Host


def properties(host: Host, unit: str, *names: str) -> t.Dict[str, str]:
    """Return properties of a unit by name; none where systemd does not answer."""
    argv = ["systemctl", "show", unit, f"--property={','.join(names)}"]
    lines = host.run(argv, check=False).out.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def instances(host: Host, template: str) -> t.List[str]:
    """Return the instances of a template such as name@.service that are loaded; none without systemd."""
    start, end = template.split("@", 1)
    argv = ["systemctl", "list-units", "--all", "--plain", "--no-legend", f"{start}@*{end}"]
    names = [line.split()[0] for line in host.run(argv, check=False).out.splitlines() if line]
    return [name[len(start) + 1 : -len(end)] for name in names if name.startswith(f"{start}@")]
