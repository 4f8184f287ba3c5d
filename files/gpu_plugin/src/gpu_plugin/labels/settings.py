# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The settings of the command ``gpu-plugin labels``, besides the configuration, such as a folder of configurations."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .._shared._base.errors import InputError, NodeError
from .._shared._base.text.labels import check_label
from .._shared._machine.nvml.within import LATE
from ..cluster.rate import BURST, QPS, Rate
from ..config import sources
from ..config.configuration import Gfd, parse
from ..config.schema import FALSE, TRUE
from ..tools import files, logs
from ..tools.status import DEFAULT_FILE
from . import mig

API, FILE, FEATURE, OFF = OUTPUTS = ("api", "file", "node-feature", "off")
NAMED, SINGLE, EMPTY = FALLBACKS = ("named", "single", "empty")
DEFAULT_NAME: Final = "default"
LAST_GOOD: Final = "/var/lib/gpu-device-plugin/configuration.json"


@dataclass(frozen=True)
class Configs:
    """``source`` has the configurations, ``link`` is what the plugin reads."""

    source: Path
    link: Path
    default: str = ""
    strategies: Sequence[str] = (NAMED, SINGLE)

    def names(self) -> list[str]:
        """Return the names of the configurations.

        Raises:
            NodeError: if the folder can't be read.
        """
        with files.failing(f"can't read {self.source}"):
            paths = sorted(self.source.iterdir())
        return [path.name for path in paths if path.is_file() and not path.name.startswith(".")]

    def stamp(self) -> tuple[object, ...]:
        """Return the stamp of the folder, its files, and the link."""
        stamps: list[object] = []
        paths: list[Path] = []
        with contextlib.suppress(OSError):  # why it can't be read is said where one is chosen
            paths = sorted(self.source.iterdir())
        stamps += [(path.name, files.stamp(path)) for path in paths]
        with contextlib.suppress(OSError):
            stamps.append(os.readlink(self.link))
        return tuple(stamps)

    def follow(self, label: str) -> str:
        """Point the link at the configuration that a label names. Return why it does not, empty if it does.

        What the plugin would refuse is not linked: the configuration before it stays in force.
        """
        try:
            name = choose(label, self.names(), self.default, self.strategies)
            target = Path("/dev/null") if name is None else self.source / name
            parse(sources.read(target)[0], str(target))
        except NodeError as error:
            return str(error)
        try:
            if self.link.is_symlink() and self.link.readlink() == target:
                return ""
            temporary = self.link.with_name(f".{self.link.name}.{os.getpid()}")
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(target)
            temporary.replace(self.link)
        except OSError as error:
            return f"can't write {self.link}: {error.strerror or error}"
        logs.info("configuration chosen", name=name or "(empty)", label=label or "(none)")
        return ""


class NoChoice(NodeError):
    """No configuration can be chosen."""


def one_of(allowed: Sequence[str], where: str, text: str) -> str:
    """Return the text as it is.

    Raises:
        InputError: if it is not allowed.
    """
    if text not in allowed:
        raise InputError.of(where, text, f"one of {', '.join(allowed)}")
    return text


def parts(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def fallbacks(where: str, text: str) -> tuple[str, ...]:
    """Return the strategies of a list with commas.

    Raises:
        InputError: if one is unknown.
    """
    return tuple(one_of(FALLBACKS, where, part) for part in parts(text))


def choose(
    label: str, names: Collection[str], default: str, strategies: Sequence[str]
) -> str | None:
    """Return the name of the configuration, as NVIDIA's config-manager does; None is an empty one.

    The label's comes first, then the default, then what the strategies choose, in their order.

    Raises:
        NoChoice: if there is none.
    """
    known = ", ".join(sorted(names)) or "none"
    for name, whose in ((label, "the node's label"), (default, "the default")):
        if name and name in names:
            return name
        if name:
            message = f"there is no configuration {name!r}, which {whose} names"
            raise NoChoice(message, cause=f"there are {known}")
    for strategy in strategies:
        if strategy == NAMED and DEFAULT_NAME in names:
            return DEFAULT_NAME
        if strategy == SINGLE and len(names) == 1:
            return next(iter(names))
        if strategy == EMPTY:
            return None
    raise NoChoice(
        "no configuration is chosen",
        cause=f"the node has no label for it, there is no default, and there are {known}",
        hint=f"label the node, or name one of them {DEFAULT_NAME!r}",
    )


@dataclass(frozen=True)
class Files:
    """The places of the host's root and of files: ``last_good`` and ``plugin_status`` are the plugin's."""

    config: Path
    host_root: Path
    status: Path
    plugin_status: Path = Path(DEFAULT_FILE)
    last_good: Path = Path(LAST_GOOD)


@dataclass(frozen=True)
class ApiAccess:
    """The node and this process in the cluster, and the way to its API.

    ``named`` is the node's name if the user has chosen it.
    """

    node: str
    kubeconfig: str
    namespace: str
    pod: str = ""
    rate: Rate = field(default_factory=Rate)
    named: str = ""


@dataclass(frozen=True)
class Settings:
    """``label_output`` empty leaves the choice to the configuration; ``configs`` is None for no choice.

    ``events`` and ``condition`` report the GPUs' health to the cluster; None leaves the choice to the output.
    ``mig`` is None if no label chooses the MIG layout.
    """

    files: Files
    api: ApiAccess
    label_output: str
    extra: Mapping[str, str]
    configs: Configs | None
    node_label: str
    events: bool | None = None
    condition: bool = False
    mig: mig.Paths | None = None
    patience: float = LATE

    @property
    def chooses(self) -> bool:
        """Return whether a label of the node chooses anything."""
        return self.configs is not None or self.mig is not None

    def output(self, gfd: Gfd) -> str:
        """Return where labels are written.

        Raises:
            NodeError: if nothing would be done at all.
        """
        chosen = {None: API, True: FEATURE, False: FILE}[gfd.node_feature_api]
        output = self.label_output or chosen
        if output == OFF and not (self.chooses or self.events or self.condition):
            raise NodeError(
                "there is nothing to do",
                cause="labels are off and there is no folder of configurations",
                hint="choose --label-output api or file, --config-file-srcdir, --mig-by-label or --node-condition",
            )
        return output

    def writes_events(self, gfd: Gfd) -> bool:
        """Return whether Events are written; by default if the API is used anyway."""
        if self.events is not None:
            return self.events
        return self.output(gfd) in (API, FEATURE) or self.chooses

    def uses_api(self, gfd: Gfd) -> bool:
        """Return whether anything of the API is used, so that there is access to it."""
        output = self.output(gfd)
        return output in (API, FEATURE) or self.chooses or self.condition or bool(self.events)

    def reads_node(self, gfd: Gfd) -> bool:
        """Return whether the node's object has to be read."""
        return self.output(gfd) == API or self.chooses


def switch(where: str, text: str) -> bool | None:
    """Return a switch's value, None for an empty text.

    Raises:
        InputError: if it is neither true nor false.
    """
    if not text:
        return None
    if text not in TRUE + FALSE:
        raise InputError.of(where, text, "true or false")
    return text in TRUE


def rate(qps: str, burst: str) -> Rate:
    """Return how often the API is asked; 0 and an empty text stand for client-go's own rate.

    Raises:
        InputError: if one is not such a number.
    """
    try:
        speed = float(qps or 0)
        if not math.isfinite(speed):
            raise ValueError
    except ValueError:
        raise InputError.of(
            "kube-api-qps", qps, "a number of requests a second, such as 5"
        ) from None
    if not re.fullmatch("[0-9]{0,9}", burst):
        raise InputError.of("kube-api-burst", burst, "a number of requests at once, such as 10")
    return Rate(speed or QPS, int(burst or 0) or BURST)


def extra(where: str, text: str) -> dict[str, str]:
    """Return labels of a list such as ``example.com/a=1,example.com/b=2``.

    Raises:
        InputError: if one is not valid.
    """
    labels: dict[str, str] = {}
    for part in parts(text):
        key, sign, value = part.partition("=")
        if not sign:
            raise InputError.of(where, part, "key=value pairs with commas between them")
        labels.update([check_label(where, key, value)])
    return labels
