# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is not as it should be, said once for each change."""

from __future__ import annotations

from .. import logs


class Troubles:
    """Troubles by what they are about."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def now(self, about: str, error: Exception) -> None:
        """Note a trouble, and log it if it is another one than before."""
        if self._now.get(about) != str(error):
            logs.warning(f"{about}: trying again", cause=error)
        self._now[about] = str(error)

    def over(self, about: str) -> bool:
        """Note that something is well; tell whether it was not."""
        return self._now.pop(about, None) is not None

    def text(self, about: str) -> str:
        """Return a trouble in words, an empty text where there is none."""
        return self._now.get(about, "")

    def first(self) -> str:
        """Return the trouble that came first, an empty text where there is none."""
        return next(iter(self._now.values()), "")

    def all(self) -> dict[str, str]:
        """Return all troubles."""
        return dict(self._now)
