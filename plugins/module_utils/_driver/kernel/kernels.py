# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernels of a node: which are newer than the running one, and the packages of apt that bring new ones."""

from __future__ import annotations

import re
import typing as t

from ..names import FLAVOUR
from ..state import Observed

NAMED = re.compile(r"-([a-z][a-z0-9-]*)$")


def order(kernel: str) -> t.List[int]:
    """Return what kernels are sorted by; their flavour does not count."""
    return [int(one) for one in re.findall(r"\d+", FLAVOUR.sub("", kernel))]


def newer(observed: Observed) -> t.List[str]:
    """Return the kernels that can be booted and are newer than the running one, newest first."""
    running = order(observed.kernel)
    found = [one for one in observed.modules.kernels if order(one) > running]
    return sorted(found, key=order, reverse=True)


def flavours(observed: Observed) -> t.List[str]:
    """Return what the packages that bring new kernels are called after linux-image-: generic, generic-hwe-24.04."""
    match = NAMED.search(observed.kernel)
    metas = (name for name in observed.packages if re.fullmatch(r"linux-image-[a-z].*", name))
    found = [name[len("linux-image-") :] for name in metas]
    return [one for one in found if match and one.startswith(match[1])]


def metapackages(observed: Observed) -> t.List[str]:
    """Return the installed packages that bring new kernels and their headers."""
    forms = ("linux-{}", "linux-image-{}", "linux-headers-{}")
    names = [form.format(one) for one in flavours(observed) for form in forms]
    return [name for name in names if observed.installed(name)]
