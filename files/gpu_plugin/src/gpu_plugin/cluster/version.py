# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The version of Kubernetes that an API server is of."""

from __future__ import annotations

from .._shared._base.dra.versions import Version, parse
from .access import FORBIDDEN, Access
from .errors import ApiError, understood


def version(access: Access) -> Version | None:
    """Return an API server's version, None where it does not say one to this user. ApiError."""
    doing = "asking for the version"
    try:
        said = access.ask(doing, "GET", "/version")
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return None
    return understood(doing, lambda: parse(str(said["gitVersion"])))
