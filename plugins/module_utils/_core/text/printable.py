# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Text of others as a terminal may be shown it: a tenant chooses the names of processes, a node its answers."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""Return ``text`` with everything that steers a terminal written out, as in ``\x1b`` and ``\u202e``.

    That is whatever Python doesn't count as printable: control characters, line ends, changes of the writing
    direction, halves of surrogate pairs. ``keep`` names those that may stay, such as the line end of a diff.
    """
    return "".join(one if one in keep or one.isprintable() else repr(one)[1:-1] for one in text)
