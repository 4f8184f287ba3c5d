# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""PAM services of logins: the limits of files reach a session by pam_limits(8) alone. Pure."""

from __future__ import annotations

import posixpath
import re
import typing as t

FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d")  # the first that has a service wins
LOGINS = ("sshd", "login")
MODULE = "pam_limits.so"
FIELD = re.compile(r"\[[^\]]*\]|\S+")  # a control in brackets has blanks


def services_without_limits(texts: t.Mapping[str, str]) -> t.Tuple[str, ...]:
    """Return the logins whose sessions get no limits.

    Args:
        texts: The files of PAM, by the names of their services.
    """
    return tuple(name for name in LOGINS if name in texts and not _sets_limits(name, texts, set()))


def _sets_limits(name: str, texts: t.Mapping[str, str], seen: t.Set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    for line in texts.get(name, "").replace("\\\n", " ").splitlines():
        fields = FIELD.findall(line.partition("#")[0])
        if fields[:1] == ["@include"]:
            included = fields[1:2]
        elif len(fields) < 3 or fields[0].lower() not in ("session", "-session"):
            continue
        elif posixpath.basename(fields[2]) == MODULE:
            return True
        else:
            included = fields[2:3] if fields[1].lower() in ("include", "substack") else []
        if any(_sets_limits(posixpath.basename(path), texts, seen) for path in included):
            return True
    return False
