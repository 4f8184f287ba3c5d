# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The machine: its commands and files, which are all that a capability may change."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import time
import typing as t

from .._base.errors import NodeError, unmask
from .._base.knowledge import Absent, Knowledge, Known, Unknown
from .._base.text.masking import masked_text
from . import devices, locks, room, writers

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
TAIL_LINES = 15
SOCKET_SECONDS = 10.0
KINDS: t.Mapping[t.Callable[[int], bool], str] = {
    stat.S_ISDIR: "folder",
    stat.S_ISCHR: "device",
    stat.S_ISBLK: "block device",
    stat.S_ISFIFO: "named pipe",
    stat.S_ISSOCK: "socket",
}


class Completed(t.NamedTuple):
    """A finished command: its exit status, standard output and standard error."""

    rc: int
    out: str
    err: str


class Status(t.NamedTuple):
    """What a path leads to: its mode with the type of file, who owns it, its inode and a node's device."""

    mode: int
    uid: int
    inode: int = 0
    device: int = 0
    gid: int = 0
    has_other_writers: bool = False  # by an access control list
    ctime: float = 0.0  # seconds since the epoch; a copy that keeps its times (cp -p) can't set it

    @property
    def is_open(self) -> bool:
        """Return whether not only root, and root's group, can write to it. Links have no mode of their own."""
        access = self.mode & stat.S_IWOTH or (self.gid and self.mode & stat.S_IWGRP)
        access = access or self.has_other_writers
        return bool(self.uid or (access and not stat.S_ISLNK(self.mode)))


class Measured(t.NamedTuple):
    """A file's size in bytes, when it was changed in whole seconds, and whether not only root can write to it."""

    size: int
    at: int
    is_open: bool = False


class Host:
    """The machine that this process runs on. Paths are absolute."""

    def __init__(self) -> None:
        folders = [*filter(None, os.environ.get("PATH", "").split(os.pathsep)), *SYSTEM_PATH]
        self._path = os.pathsep.join(dict.fromkeys(folders))

    def run(
        self,
        argv: t.Sequence[str],
        *,
        check: bool = True,
        env: t.Optional[t.Mapping[str, str]] = None,
        timeout: t.Optional[float] = None,
        stdin: t.Optional[str] = None,
    ) -> Completed:
        """Run a command without a shell, in the C locale.

        Without ``check`` a missing program is status 127 and a timeout (seconds) 124.

        Raises:
            NodeError: if the program is missing, fails or times out, with ``check``.
        """
        program = self.which(argv[0])
        if program is None:
            completed = Completed(127, "", f"{argv[0]}: not found")
        else:
            try:
                # The daemon has this too, and no module whose run_command it could take.
                ended = subprocess.run(  # pylint: disable=ansible-bad-function
                    [program, *argv[1:]],
                    check=False,
                    env={**self.environment(), **(env or {})},
                    input=stdin or "",
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=timeout,
                    pass_fds=tuple(locks.inherited),
                )
                completed = Completed(ended.returncode, ended.stdout, ended.stderr)
            except subprocess.TimeoutExpired:
                completed = Completed(124, "", f"{program}: no answer within {timeout} s")
            except OSError as error:
                completed = Completed(126, "", f"{program}: {error.strerror or error}")
        if check and completed.rc != 0:
            # Before it is cut: the heading of a table of credentials may not be among the last lines.
            lines = masked_text(completed.err.strip() or completed.out.strip()).splitlines()
            message = f"command failed with status {completed.rc}: {masked_text(' '.join(argv))}"
            raise NodeError(message, cause="\n".join(lines[-TAIL_LINES:]), rc=completed.rc)
        return completed

    def environment(self) -> t.Dict[str, str]:
        """Return the environment of commands: this process's, with the system's folders and the C locale."""
        return {**os.environ, "PATH": self._path, "LC_ALL": "C"}

    def which(self, name: str) -> t.Optional[str]:
        """Return the path of a program, or None."""
        return shutil.which(name, path=self._path)

    def read(self, path: str) -> t.Optional[str]:
        """Return a file's text, or None when it does not exist."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def read_bytes(self, path: str) -> t.Optional[bytes]:
        """Return a file's bytes, or None when it does not exist."""
        try:
            with open(path, "rb") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise NodeError(f"cannot read {path}", cause=error.strerror or str(error)) from error

    def write(
        self, path: str, text: str, *, mode: t.Optional[int] = None, backup: bool = False
    ) -> t.Optional[str]:
        """Replace a file's text in one atomic step and return the backup's path, if one was made.

        With a mode it is a file of ours: root's, in that mode, and never written through a link. Without one it is a
        foreign file: it keeps its owner, mode and attributes, and a link to it stays one; a new one gets 0644.

        Raises:
            NodeError: if it can't be written, or is no regular file, such as /dev/null under a masked unit.
        """
        target = os.path.realpath(path) if mode is None else path
        folder, name = os.path.split(target)
        saved = None
        try:
            previous = _regular(target)
            self.makedirs(folder)
            beside = writers.place_beside(folder)
            if backup and previous is not None:
                saved = f"{beside}/{name}.{time.strftime('%Y%m%dT%H%M%S')}.{os.getpid()}~"
                shutil.copy2(target, saved)
            with writers.replacing(target, folder=beside) as stream:
                stream.write(text.encode("utf-8", "surrogateescape"))
                if mode is not None:
                    writers.dress(stream.fileno(), mode)
                elif previous is None:
                    os.fchmod(stream.fileno(), 0o644)
                else:
                    writers.dress_as(stream.fileno(), target, previous)
        except OSError as error:
            hint = "the old file, if there was one, is as it was; free space or fix the permission and run again"
            raise writers.failed("write", path, error, hint, target) from error
        return saved

    def dress(self, path: str, mode: int) -> None:
        """Give a file or folder of ours back to root, in its mode."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            writers.dress(descriptor, mode)
        except OSError as error:
            raise writers.failed("give back", path, error) from error
        finally:
            os.close(descriptor)

    find_hindrance = staticmethod(writers.find_hindrance)

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Restore the owner and group of a foreign file."""
        os.chown(path, uid, gid, follow_symlinks=False)

    def listdir(self, path: str) -> t.List[str]:
        """Return the sorted names in a folder, none when it does not exist."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self, path: str) -> t.Dict[str, Measured]:
        """Return the sizes of all files below a folder, and the folders that not only root can write to, by path.

        Links are not followed; byte code is left out, but not its folders.
        """
        result, all_folders = {}, [path]
        for parent, folders, names in os.walk(path):
            for file in (f"{parent}/{name}" for name in names):
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(file)
                    # Of thousands of files few are asked twice.
                    suspect = status.st_uid or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                    is_open = bool(suspect) and _status(file, status).is_open
                    result[file] = Measured(status.st_size, int(status.st_mtime), is_open)
            all_folders += [f"{parent}/{name}" for name in folders]
            folders[:] = [name for name in folders if name != "__pycache__"]
        for folder in all_folders:
            with contextlib.suppress(FileNotFoundError):
                if _status(folder, os.lstat(folder)).is_open:
                    result[folder] = Measured(0, 0, True)
        return result

    def leads_to(self, path: str) -> str:
        """Return the file that a link leads to in the end, empty if there is none."""
        real = os.path.realpath(path)
        return real if os.path.exists(real) else ""

    def writable(self, path: str) -> bool:
        """Return whether a folder takes files: none of a read-only file system does."""
        return os.access(path, os.W_OK)

    def move(self, path: str, to: str) -> None:
        """Rename a file or folder within its folder; it is copied where an overlay can't rename it."""
        shutil.move(path, to)

    def exists(self, path: str) -> bool:
        """Return whether something is there (a dangling link counts)."""
        return os.path.lexists(path)

    def readlink(self, path: str) -> t.Optional[str]:
        """Return a symbolic link's target, or None."""
        try:
            return os.readlink(path)
        except OSError:
            return None

    def status(self, path: str) -> t.Optional[Status]:
        """Return the status of what a path leads to, None if there is nothing."""
        try:
            return _status(path, os.stat(path))
        except OSError:
            return None

    def itself(self, path: str) -> t.Optional[Status]:
        """Return the status of a path itself, which may be a link; None if there is nothing."""
        try:
            return _status(path, os.lstat(path))
        except OSError:
            return None

    character_device = staticmethod(devices.character_device)
    devices_in_dev = staticmethod(devices.devices_in_dev)

    def mtime(self, path: str) -> t.Optional[float]:
        """Return when a file was last changed, in seconds since the epoch, or None."""
        try:
            return os.stat(path).st_mtime
        except OSError:
            return None

    lock_holder = staticmethod(locks.record_lock_holder)

    def who_writes(self, folder: str) -> str:
        """Return who else than root may change the files of a folder, empty if only root may."""
        return writers.who_writes(folder, sticky=True)

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        """Make a folder and its parents, in this mode whatever the process's mask is."""
        try:
            missing = []
            while not os.path.isdir(path):
                missing.append(path)
                path = os.path.dirname(path)
            for path in reversed(missing):
                try:
                    os.mkdir(path, mode)
                except FileExistsError:  # another process was faster
                    if not os.path.isdir(path):
                        raise
                os.chmod(path, mode)
        except OSError as error:
            cause = error.strerror or str(error)
            raise NodeError(f"cannot make the folder {path}", cause=cause) from error

    def symlink(self, target: str, path: str) -> None:
        """Make or replace a symbolic link in one atomic step."""
        self.makedirs(os.path.dirname(path))
        temporary = f"{path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(target, temporary)
        os.replace(temporary, path)

    def remove(self, path: str) -> bool:
        """Remove a file, a link or a whole folder, and return whether it was there."""
        if not os.path.lexists(path):
            return False
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except OSError as error:
            raise writers.failed("remove", path, error) from error
        return True

    def ask(self, socket: str, target: str, *, timeout: float = SOCKET_SECONDS) -> t.Any:
        """Return the JSON that a service at a Unix socket answers to a GET request, None if it doesn't."""
        from . import unix_http  # HTTP is loaded only if it is used

        return unix_http.get(socket, target, timeout)

    def listens(self, socket: str) -> bool:
        """Return whether a service listens at a Unix socket, which may be left of one that has ended."""
        try:
            room.listening_process(socket, SOCKET_SECONDS)
        except OSError:
            return False
        return True

    def listener(self, socket: str) -> Knowledge[int]:
        """Return the process that listens at a Unix socket, Absent if there is none."""
        try:
            pid = room.listening_process(socket, SOCKET_SECONDS)
        except (FileNotFoundError, ConnectionRefusedError):
            return Absent()
        except OSError as error:
            return Unknown(f"{socket} can't be connected to: {error.strerror or error}")
        return (
            Known(pid) if pid else Unknown(f"who listens at {socket} is in another PID namespace")
        )

    @contextlib.contextmanager
    def lock(self, path: str, *, timeout: float = 0, inherit: bool = False) -> t.Iterator[None]:
        """Hold an exclusive lock that root alone can take, as locks.locked() does."""
        folder = os.path.dirname(path)
        self.makedirs(os.path.dirname(folder))
        self.makedirs(folder, 0o700)
        with locks.locked(path, timeout, inherit=inherit):
            yield


def not_regular(
    path: str, mode: int, target: t.Optional[str], *, is_folder: bool = False
) -> NodeError:
    """Return why a path can't be written. ``mode`` has the type of file, ``target`` is where a link leads to."""
    folder, name = os.path.split(path)
    if target == os.devnull and folder == "/etc/systemd/system":
        cause, hint = f"it is a link to {target}", unmask(name, "leave out what needs the unit")
        return NodeError(f"{path} can't be written: the unit is masked", cause=cause, hint=hint)
    if target is not None:
        cause = f"it is a link to {target}, which is no file of gpu.node's"
        remedy = "remove the link"
        if is_folder:
            remedy += f"; for another disk, mount --bind {target} {path}, with a line in /etc/fstab"
    else:
        kind = next(kind for is_kind, kind in KINDS.items() if is_kind(mode))
        cause, remedy = f"it is a {kind} and no regular file", "move away what is there"
    return NodeError(f"{path} can't be written", cause=cause, hint=f"{remedy}, then run again")


def _status(path: str, result: os.stat_result) -> Status:
    return Status(
        result.st_mode,
        result.st_uid,
        result.st_ino,
        result.st_rdev,
        result.st_gid,
        has_other_writers=writers.lets_others_write(path, result.st_mode),
        ctime=result.st_ctime,
    )


def _regular(path: str) -> t.Optional[os.stat_result]:
    """Return the status of a regular file, None if there is nothing.

    Raises:
        NodeError: if it is no regular file.
    """
    try:
        result = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(result.st_mode):
        target = os.readlink(path) if stat.S_ISLNK(result.st_mode) else None
        raise not_regular(path, result.st_mode, target)
    return result
