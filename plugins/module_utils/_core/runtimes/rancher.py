# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""k3s and RKE2: each brings a containerd, and regenerates its configuration at each start."""

from __future__ import annotations

import posixpath
import typing as t

from ..errors import NodeError
from .common import Change, Kind, Version, describe, version_text
from .containerd import CONTAINERD, MERGES

K3S = CONTAINERD._replace(
    name="k3s",
    program="/var/lib/rancher/k3s/data/current/bin/containerd",
    units=("k3s.service", "k3s-agent.service"),
    config_path="/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
)
RKE2 = CONTAINERD._replace(
    name="rke2",
    program="/var/lib/rancher/rke2/bin/containerd",
    units=("rke2-server.service", "rke2-agent.service"),
    config_path="/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
TEMPLATES = {2: "config.toml", 3: "config-v3.toml"}  # by the format; .tmpl is added, or .d


def choose_unit(kind: Kind, states: t.Mapping[str, t.Mapping[str, str]]) -> t.Optional[str]:
    """Return the unit that runs on this node, or would; None where there is none.

    ``states`` are systemd's properties LoadState and ActiveState of each unit.
    """
    known = [one for one in kind.units if states[one].get("LoadState") == "loaded"]
    active = [one for one in known if states[one].get("ActiveState") == "active"]
    return (*active, *known, None)[0]


def not_started(kind: Kind) -> NodeError:
    """Return the error for a node where there is nothing to read yet."""
    return NodeError(
        f"{kind.config_path} is not there yet",
        cause=f"{kind.name} writes it when it starts",
        hint=f"start {' or '.join(kind.units)}, then run again",
    )


def not_settable(kind: Kind, version: Version, form: int, changes: t.Iterable[Change]) -> NodeError:
    """Return the error for a file to which nothing can be added from outside."""
    folder = posixpath.dirname(kind.config_path)
    base = TEMPLATES.get(form, TEMPLATES[3])
    needed = version_text(MERGES)
    return NodeError(
        f"{kind.name} needs {describe(changes)}, and {kind.config_path} is regenerated "
        "at each of its starts",
        cause=(
            f"a drop-in file takes containerd {needed} or later (this is {version_text(version)}) and "
            f'a file that imports "{folder}/{base}.d/*.toml"'
        ),
        hint=(
            f"upgrade {kind.name}, or write {folder}/{base}.tmpl with these settings in it and "
            f"restart {kind.name}"
        ),
    )
