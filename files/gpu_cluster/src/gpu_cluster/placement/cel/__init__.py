# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The part of CEL that selectors of devices use. Pure.

An own small reading of it, since the libraries on PyPI bring nine others or no wheel for Python 3.10, and none
knows the quantities, versions and absent domains of Kubernetes; what is not understood is an error that names it.
"""

from __future__ import annotations

from .errors import CelError
from .selector import Selector

__all__ = ["CelError", "Selector"]
