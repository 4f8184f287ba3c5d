# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The families by the names that the table of distributions has them by."""

from __future__ import annotations

import typing as t

from .families.debian import DEBIAN
from .families.rhel import RHEL
from .families.suse import SUSE
from .families.ubuntu import UBUNTU
from .family import Family

FAMILIES: t.Mapping[str, Family] = {one.traits.name: one for one in (DEBIAN, UBUNTU, RHEL, SUSE)}
