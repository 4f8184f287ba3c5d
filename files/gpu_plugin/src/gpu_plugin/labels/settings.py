# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the command ``gpu-plugin labels`` is given, besides the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .._shared._core.errors import InputError, NodeError
from ..config.gfd import Gfd
from .configs import Configs
from .values import checked

API, FILE, FEATURE, OFF = "api", "file", "node-feature", "off"
OUTPUTS: Final = (API, FILE, FEATURE, OFF)


@dataclass(frozen=True)
class Settings:
    """``label_output`` empty leaves the choice to the configuration; ``configs`` is None for no choice.

    ``tick`` is how often files are looked at, ``pause`` how long the first wait after a failure is,
    both in seconds.
    """

    config: Path
    node: str
    label_output: str = ""
    kubeconfig: str = ""
    namespace: str = "default"
    extra: Mapping[str, str] = field(default_factory=dict)
    configs: Configs | None = None
    node_label: str = ""
    host_root: Path = Path("/")
    status_file: Path = Path("/run/gpu-node/labels.json")
    tick: float = 1.0
    pause: float = 1.0

    def output(self, gfd: Gfd) -> str:
        """Return where labels are written. NodeError: nothing would be done at all."""
        chosen = {None: API, True: FEATURE, False: FILE}[gfd.node_feature_api]
        output = self.label_output or chosen
        if output == OFF and self.configs is None:
            raise NodeError(
                "there is nothing to do",
                cause="labels are off and there is no folder of configurations",
                hint="choose --label-output api or file, or give --config-file-srcdir",
            )
        return output

    def reads_node(self, gfd: Gfd) -> bool:
        """Tell whether the node's object has to be read."""
        return self.output(gfd) == API or self.configs is not None


def label_output(where: str, text: str) -> str:
    """Return a label output. InputError: there is no such one."""
    if text and text not in OUTPUTS:
        raise InputError.of(where, text, f"one of {', '.join(OUTPUTS)}")
    return text


def extra(where: str, text: str) -> dict[str, str]:
    """Return labels of a list such as ``example.com/a=1,example.com/b=2``. InputError."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = part.partition("=")
        if not sign:
            raise InputError.of(where, part, "key=value pairs with commas between them")
        found.update([checked(where, key, value)])
    return found
