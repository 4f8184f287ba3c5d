# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""PAM services of logins: a session gets the limits of limits.conf(5) only from pam_limits(8). Pure."""

from __future__ import annotations

import posixpath
import re
import typing as t

FOLDERS = (
    "/etc/pam.d",
    "/usr/lib/pam.d",
    "/usr/etc/pam.d",
)  # the first with a file for a service wins
LOGINS = ("sshd", "login")
MODULE = "pam_limits.so"
FIELD = re.compile(r"\[[^\]]*\]|\S+")  # of a line; a control in brackets may have blanks


def services_without_limits(texts: t.Mapping[str, str]) -> t.Tuple[str, ...]:
    """Return the login services whose sessions don't run pam_limits.

    Args:
        texts: The files of PAM by the names of their services. A login without a file is not installed.
    """
    return tuple(name for name in LOGINS if name in texts and not _sets_limits(name, texts, set()))


def _sets_limits(name: str, texts: t.Mapping[str, str], seen: t.Set[str]) -> bool:
    """Return whether a service, or one that it includes, runs pam_limits for sessions.

    ``seen`` are the services that were searched already, since includes may be circular.
    """
    if name in seen:
        return False
    seen.add(name)
    for line in texts.get(name, "").replace("\\\n", " ").splitlines():
        fields = FIELD.findall(line.partition("#")[0])
        included = ""
        if fields[:1] == ["@include"]:
            included = "".join(fields[1:2])
        elif len(fields) >= 3 and fields[0].lower() in ("session", "-session"):
            _type, control, module = fields[:3]
            if posixpath.basename(module) == MODULE:
                return True
            if control.lower() in ("include", "substack"):
                included = module
        if included and _sets_limits(posixpath.basename(included), texts, seen):
            return True
    return False
