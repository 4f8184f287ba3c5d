# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The machine for those who only look at it: no command may take for ever."""

from __future__ import annotations

import typing as t

from .api import Completed, Host

SECONDS = 30.0


class BoundedHost(Host):
    """The machine, on which commands without a timeout of their own get one."""

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        """As Host does; ``how`` is what it takes."""
        return super().run(argv, **{**how, "timeout": how.get("timeout") or SECONDS})
