# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether containers can take GPUs that the kubelet did not give them, by a variable of their image."""

from __future__ import annotations

import re
import typing as t

from .text.json_data import table

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
# What these allocate reaches containers through NVIDIA's runtime only, which reads the variable.
BY_HANDLER = ("envvar", "volume-mounts")
BY_DEFAULT = ("envvar",)  # as NVIDIA's plugin has it
REFUSED = re.compile(
    r"^\s*accept-nvidia-visible-devices-envvar-when-unprivileged\s*=\s*false\b", re.MULTILINE
)


def strategies(config: t.Any) -> t.Tuple[str, ...]:
    """Return the strategies of a configuration, as far as it is one."""
    for key in ("flags", "plugin", "deviceliststrategy"):  # in whatever case
        known = {str(name).casefold(): one for name, one in table(config).items()}
        config = known.get(key)
    if isinstance(config, str):
        return (config,)
    return tuple(map(str, config)) if isinstance(config, list) else BY_DEFAULT


def by_handler_alone(config: t.Any) -> t.Tuple[str, ...]:
    """Return the strategies of a configuration where none of them reaches a container without NVIDIA's runtime."""
    chosen = strategies(config)
    return chosen if set(chosen) <= set(BY_HANDLER) else ()


def warning(chosen: t.Sequence[str], toolkit: t.Optional[str]) -> str:
    """Return a warning, or nothing where images have no say.

    ``toolkit`` is the text of the container toolkit's configuration, None where there is none.
    """
    used = [one for one in chosen if one in BY_HANDLER]
    if not used or REFUSED.search(toolkit or ""):
        return ""
    return (
        f"deviceListStrategy {', '.join(used)}: a container that goes through NVIDIA's runtime gets the GPUs that "
        "NVIDIA_VISIBLE_DEVICES of its image or pod names, also those that the kubelet gave to others. Next step: use "
        "cdi-cri without such a handler, or volume-mounts with accept-nvidia-visible-devices-envvar-when-unprivileged "
        f"= false and accept-nvidia-visible-devices-as-volume-mounts = true in {TOOLKIT_CONFIG}"
    )
