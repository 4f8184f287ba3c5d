# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The version of Kubernetes that an API server is of."""

from __future__ import annotations

from .._shared._core.dra.versions import Version, parse
from .access import Access
from .errors import understood


def version(access: Access) -> Version | None:
    """Return an API server's version, None where it says none that is understood. ApiError."""
    doing = "asking for the version"
    said = access.ask(doing, "GET", "/version")
    return understood(doing, lambda: parse(str(said["gitVersion"])))
