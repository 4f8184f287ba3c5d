# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who may write to a path, why even root can't, and how files are replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import tempfile
import typing as t
from pathlib import Path

from .._base.errors import NodeError
from . import devices

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_LINKS = 40  # as many as the kernel follows

# An access control list, of which the mode shows only the mask, as the bits of the group (acl(5)).
ACL = "system.posix_acl_access"
ACL_HEADER = struct.calcsize("<I")
ACL_ENTRY = struct.Struct("<HHI")  # tag, permissions, and the number of a user or group
NAMED = (0x02, 0x08)  # the tags of a user and of a group that the list names
WRITE = 0x02
WITHOUT_LIST = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT)


def place_beside(folder: str) -> str:
    """Return the folder for copies and for what is half written of the files in another folder.

    Of a drop-in folder some programs, such as CRI-O, read each file, whatever its name: it is the folder above, unless
    a file can't be moved from there.
    """
    if not folder.endswith(".d"):
        return folder
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
        mounted = {line.split()[4] for line in stream}
    return folder if folder in mounted else os.path.dirname(folder)


@contextlib.contextmanager
def replacing(
    target: str, *, folder: str = "", temporary: str = "", durable: bool = True
) -> t.Iterator[t.BinaryIO]:
    """Yield a new file that replaces the target in one step at the end; after an error the target is as it was.

    Only its owner can open it, and no link is followed. ``durable``: one of both is there after a loss of power. It is
    made in a ``folder``, by default the target's, under a name that own_files removes if this process is killed, or at
    the path ``temporary``, where it replaces what a killed process left.
    """
    parent, name = os.path.split(target)
    if temporary:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        handle = os.open(temporary, NEW_FILE, 0o600)
    else:
        handle, temporary = tempfile.mkstemp(dir=folder or parent, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def who_writes(folder: t.Union[str, Path], *, sticky: bool = False, links: int = 0) -> str:
    """Return who else may change what is in a folder, empty if root alone may.

    Args:
        folder: An absolute path. What is not there yet is made by root.
        sticky: Whether a parent may be a folder such as /tmp, where others can't move what is root's and there already.
        links: How many links led here.
    """
    below = False  # whether what is below in the path is there
    path = Path(folder)
    for place in (path, *path.parents):
        problem = _problem(place, sticky and below, links)
        if problem:
            return problem
        below = os.path.lexists(place)
    return ""


def _problem(path: Path, may_be_sticky: bool, links: int) -> str:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    mode = status.st_mode
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}"
    if stat.S_ISLNK(mode):
        if links >= MOST_LINKS:
            return f"{path} leads through too many links"
        return who_writes(path.parent / os.readlink(path), sticky=may_be_sticky, links=links + 1)
    if not stat.S_ISDIR(mode):
        return f"{path} is not a folder"
    writable: int = mode & (stat.S_IWOTH if status.st_gid == 0 else stat.S_IWGRP | stat.S_IWOTH)
    if (writable or lets_others_write(path, mode)) and not (may_be_sticky and mode & stat.S_ISVTX):
        return f"others may write in {path} (mode {stat.S_IMODE(mode):o})"
    return ""


def lets_others_write(path: t.Union[str, os.PathLike[str]], mode: int) -> bool:
    """Return whether a list lets a user or group other than root write to a file or folder of this mode.

    A list that can't be read counts as one that does.
    """
    if stat.S_ISLNK(mode) or not mode & stat.S_IWGRP:  # the mask takes away what the entries grant
        return False
    try:
        entries = ACL_ENTRY.iter_unpack(os.getxattr(path, ACL)[ACL_HEADER:])
    except OSError as error:
        return error.errno not in WITHOUT_LIST
    return any(tag in NAMED and number and rights & WRITE for tag, rights, number in entries)


class Hindrance(t.NamedTuple):
    """Why even root can't replace or remove a file, and what ends that."""

    cause: str
    hint: str


def find_hindrance(path: str) -> t.Optional[Hindrance]:
    """Return what keeps root from replacing or removing a file, None if nothing is known."""
    folder = os.path.dirname(path)
    for place in (path, folder):
        attributes = devices.attributes(place)
        for attribute, letter, description in (
            (devices.IMMUTABLE, "i", "is immutable"),
            (devices.APPEND_ONLY, "a", "can only be appended to"),
        ):
            if attributes & attribute:
                return Hindrance(f"{place} {description}", f"chattr -{letter} {place}")
        if attributes & devices.MOUNT_ROOT and place == path:
            return Hindrance(f"something is mounted over {path}", f"umount {path}")
    with contextlib.suppress(OSError):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            cause = f"the file system of {folder} is read-only"
            return Hindrance(cause, f"make it writable: findmnt --target {folder} shows it")
    return None


def failed(verb: str, path: str, error: OSError, hint: str = "", target: str = "") -> NodeError:
    """Return the error of a file that can't be written or removed, with the remedy if it is known.

    ``target`` is the file that a link at the path leads to.
    """
    known = find_hindrance(target or path)
    if known is None and error.errno == errno.EBUSY:  # kernels before 5.8 don't tell of mounts
        known = Hindrance("", f"umount {target or path}, if something is mounted over it")
    causes = [error.strerror or str(error), known.cause if known else ""]
    return NodeError(
        f"cannot {verb} {path}",
        cause=": ".join(filter(None, causes)),
        hint=f"{known.hint}, then run again" if known else hint,
    )


def dress(descriptor: int, mode: int) -> None:
    """Give a file or folder of ours back to root, in its mode."""
    if os.geteuid() == 0:
        os.fchown(descriptor, 0, 0)
    os.fchmod(descriptor, mode)


def dress_as(descriptor: int, target: str, old: os.stat_result) -> None:
    """Give a new file the owner, mode and attributes of the one that it replaces, such as its ACL."""
    if os.geteuid() == 0:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    with contextlib.suppress(OSError):  # a file system without them
        for name in os.listxattr(target):
            with contextlib.suppress(OSError):  # one that the kernel alone may set
                os.setxattr(descriptor, name, os.getxattr(target, name))
