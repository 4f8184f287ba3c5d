# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is not as it should be, logged once for each change."""

from __future__ import annotations

from ..tools import logs


class Problems(dict[str, str]):
    """Problems in words, by what they are about, the oldest first."""

    def note(self, about: str, error: Exception) -> None:
        """Note a problem, and log it if it is another one than before."""
        if self.get(about) != str(error):
            logs.warning(f"{about}: trying again", cause=error)
        self[about] = str(error)

    def resolve(self, about: str) -> bool:
        """Note that something is well; tell whether it was not."""
        return self.pop(about, None) is not None
