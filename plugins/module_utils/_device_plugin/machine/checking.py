# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Let a release's own parser judge a configuration before it is in force, and before it is written."""

from __future__ import annotations

import posixpath
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from .. import held
from ..failures import of_check_config
from ..state import Desired

SOURCE = "standard input"  # as the program calls it


def check_config(
    host: Host, program: str, desired: Desired, path: str, text: str, *, node: bool = False
) -> t.Tuple[str, ...]:
    """Return which devices would wait for whom; ``node``: also judge it by the node's devices.

    NodeError: the program refuses it.
    """
    flags = ["--node"] if node else []
    done = host.run([program, "check-config", *flags, "-"], check=False, stdin=text)
    if done.rc:
        ours = path == desired.config_file
        where = "config" if ours else f"configs: {posixpath.basename(path)}"
        cause = of_check_config(done.err or done.out, SOURCE)
        raise NodeError(f"{where}: the device plugin refuses it", cause=cause, key=where)
    return held.expected(done.out)
