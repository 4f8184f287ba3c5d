# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The package manager of each family of distributions."""

from __future__ import annotations

import typing as t

from ..._core.errors import InputError
from ..api import Host
from .api import PackageManager
from .apt import Apt
from .rpm import Dnf, Zypper

FAMILIES: t.Dict[str, t.Callable[[Host, float, str], PackageManager]] = {
    "debian": Apt,
    "ubuntu": Apt,
    "rhel": Dnf,
    "suse": Zypper,
}


def package_manager(family: str, host: Host, timeout: float, purpose: str) -> PackageManager:
    """Return the package manager of a family of distributions.

    ``timeout`` is how long to wait where another process holds its lock, ``purpose`` what errors say
    that is installed.
    """
    return FAMILIES[family](host, timeout, purpose)


def checked_timeout(seconds: int) -> int:
    """Return the option lock_timeout; InputError where it is no time."""
    if seconds < 0:
        raise InputError.of("lock_timeout", seconds, "a number of seconds, not negative")
    return seconds
