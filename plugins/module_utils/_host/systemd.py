# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd tells of a unit."""

from __future__ import annotations

import typing as t

from .api import Host


def properties(host: Host, unit: str, *names: str) -> t.Dict[str, str]:
    """Return properties of a unit by name; none where systemd does not answer."""
    words = ["systemctl", "show", unit, f"--property={','.join(names)}"]
    lines = host.run(words, check=False).out.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
