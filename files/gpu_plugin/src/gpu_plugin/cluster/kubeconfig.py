# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A kubeconfig, looked at before the Kubernetes client reads it: it knows no limits, and runs programs."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import yaml

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import cut, shown
from ..config import plain_yaml
from ..tools import bounded

LIMITS: Final = plain_yaml.Limits(256 << 10, 4000)  # with certificates in it, and many clusters
PROGRAM_SECONDS: Final = 60.0
FILES: Final = ("client-certificate", "client-key", "tokenFile", "certificate-authority")
OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def look(path: str) -> tuple[str, ...]:
    """Return a kubeconfig that can be handed on and the files that it names. NodeError: it can't.

    That is one which runs something as this user, where somebody else may write it.
    """
    try:
        text = bounded.read_text(Path(path), LIMITS.characters)
        programs = check(text, path)
        found = os.stat(path)
    except (OSError, UnicodeDecodeError) as error:
        raise NodeError(f"can't read {path}", cause=str(error)) from error
    ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & OTHERS
    if programs and not ours:
        raise NodeError(
            f"{path} can be written by others",
            cause=f"it names a program that would be run: {programs[0]}",
            hint=f"chown root {path} and chmod 0600 {path}",
        )
    return (path, *_files(_data(text, path), os.path.dirname(os.path.abspath(path))))


def check(text: str, path: str) -> list[str]:
    """Return the programs that a kubeconfig has run for its tokens. NodeError: it is none."""
    users = _data(text, path).get("users") or []
    return [program for one in users for program in _programs(one.get("user"))]


def _data(text: str, path: str) -> dict[str, Any]:
    try:
        data = plain_yaml.load(text, LIMITS)
    except yaml.YAMLError as error:
        cause = cut(str(getattr(error, "problem", None) or error))
        raise NodeError(f"{path} is no kubeconfig", cause=cause) from error
    if not isinstance(data, dict):
        raise NodeError(f"{path} is no kubeconfig", cause="it is not a mapping")
    for key in ("clusters", "contexts", "users"):
        named = data.get(key) or []
        if not isinstance(named, list) or not all(isinstance(one, dict) for one in named):
            raise NodeError(f"{path} is no kubeconfig", cause=f"{key} is not a list of mappings")
    return data


def _files(data: dict[str, Any], folder: str) -> Iterator[str]:
    """Yield the certificates, keys and tokens that are files of their own."""
    for section, part in (("users", "user"), ("clusters", "cluster")):
        for one in data.get(section) or []:
            named = one.get(part)
            for key in FILES if isinstance(named, dict) else ():
                if isinstance(named.get(key), str):
                    yield os.path.join(folder, named[key])


def _programs(user: Any) -> list[str]:
    """Return what is run for a user, without the arguments: there may be secrets in them."""
    ways = user if isinstance(user, dict) else {}
    given = [ways[key] for key in ("exec", "auth-provider") if ways.get(key)]
    return [
        shown(way.get("command", way.get("name")) if isinstance(way, dict) else way)
        for way in given
    ]


class BoundedProgram(subprocess.Popen[str]):
    """A program of a kubeconfig, which is ended where it takes too long."""

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[str, str]:
        """As the library does. OSError: it took too long."""
        try:
            return super().communicate(input, timeout or PROGRAM_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            self.wait()
            seconds = f"{error.timeout:.0f} seconds"
            raise TimeoutError(f"{shown(self.args[0])} has not answered in {seconds}") from error  # type: ignore[index]


# What the client uses of the module ``subprocess``; it would wait for such a program without end.
BOUNDED: Final = SimpleNamespace(Popen=BoundedProgram, PIPE=subprocess.PIPE)
