# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A kubeconfig, looked at before the Kubernetes client reads it: it knows no limits, and runs programs."""

from __future__ import annotations

import os
import stat
import subprocess
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
OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def look(path: str) -> None:
    """Return if a kubeconfig can be handed on. NodeError: it can't.

    That is one which runs something as this user, where somebody else may write it.
    """
    try:
        programs = check(bounded.read_text(Path(path), LIMITS.characters), path)
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


def check(text: str, path: str) -> list[str]:
    """Return the programs that a kubeconfig has run for its tokens. NodeError: it is none."""
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
    return [program for one in data.get("users") or [] for program in _programs(one.get("user"))]


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
