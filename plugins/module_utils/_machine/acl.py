# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Access control lists of files, of which the mode shows only the mask, as the bits of the group (acl(5))."""

from __future__ import annotations

import errno
import os
import stat
import struct
import typing as t

ATTRIBUTE = "system.posix_acl_access"
HEADER = struct.calcsize("<I")
ENTRY = struct.Struct("<HHI")  # tag, permissions, and the number of a user or group
NAMED = (0x02, 0x08)  # the tags of a user and of a group that the list names
WRITE = 0x02
WITHOUT_LIST = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT)


def lets_others_write(path: t.Union[str, os.PathLike[str]], mode: int) -> bool:
    """Return whether a list lets a user or group other than root write to a file or folder of this mode.

    A list that can't be read counts as one that does.
    """
    if stat.S_ISLNK(mode) or not mode & stat.S_IWGRP:  # the mask takes away what the entries grant
        return False
    try:
        entries = ENTRY.iter_unpack(os.getxattr(path, ATTRIBUTE)[HEADER:])
    except OSError as error:
        return error.errno not in WITHOUT_LIST
    return any(tag in NAMED and number and rights & WRITE for tag, rights, number in entries)
