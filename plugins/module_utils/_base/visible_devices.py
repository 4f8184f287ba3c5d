# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether containers can get GPUs that are not allocated to them, by a variable of their image."""

from __future__ import annotations

import typing as t

from .text import json_data
from .text.json_data import table
from .text.shown import cut

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
# With these strategies devices reach containers only through NVIDIA's runtime, which reads the variable.
BY_HANDLER = ("envvar", "volume-mounts")
BY_CDI = ("cdi-annotations", "cdi-cri")
BY_DEFAULT = ("envvar",)  # as NVIDIA's plugin has it
# Keys of the toolkit's configuration, at its top level, with their defaults in NVIDIA's runtime.
BY_VARIABLE = "accept-nvidia-visible-devices-envvar-when-unprivileged", True
BY_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts", False


def strategies(config: t.Any) -> t.Tuple[str, ...]:
    """Return the strategies of a configuration, which may be invalid."""
    chosen = value_at(config, "flags", "plugin", "deviceliststrategy")
    if isinstance(chosen, str):
        return (chosen,)
    return tuple(map(str, chosen)) if isinstance(chosen, list) else BY_DEFAULT


def value_at(config: t.Any, *keys: str) -> t.Any:
    """Return the value of a configuration at nested keys, whose case does not count; None if there is none."""
    for key in keys:
        known = {str(name).casefold(): value for name, value in table(config).items()}
        config = known.get(key)
    return config


def by_handler_alone(config: t.Any) -> t.Tuple[str, ...]:
    """Return the strategies of a configuration if none of them works without NVIDIA's runtime, otherwise none."""
    chosen = strategies(config)
    return chosen if set(chosen) <= set(BY_HANDLER) else ()


def warning(chosen: t.Sequence[str], toolkit: t.Optional[str]) -> str:
    """Return a warning if images can name GPUs, or an empty text.

    ``toolkit`` is the text of the container toolkit's configuration, None if there is none.
    """
    used = [strategy for strategy in chosen if strategy in BY_HANDLER]
    if not used:
        return ""
    subject = f"deviceListStrategy {', '.join(used)}"
    try:
        config = _load(toolkit) if toolkit else {}
    except json_data.MISREAD as error:
        return (
            f"{subject}: whether a container gets the GPUs of others is not known: {TOOLKIT_CONFIG} is not valid TOML: "
            f"{cut(str(error))}. Next step: fix the file"
        )
    if config.get(*BY_VARIABLE) is not False:
        return (
            f"{subject}: a container that goes through NVIDIA's runtime gets the GPUs that NVIDIA_VISIBLE_DEVICES of "
            "its image or pod names, also those that the kubelet gave to others. Next step: use "
            f"cdi-cri without such a handler, or volume-mounts with {BY_VARIABLE[0]} = false and {BY_MOUNTS[0]} = true "
            f"in {TOOLKIT_CONFIG}, before its first table"
        )
    by_mounts = "volume-mounts" in used and config.get(*BY_MOUNTS) is True
    if by_mounts or len(used) < len(chosen):
        return ""
    return (
        f"{subject}: pods get no GPU: NVIDIA's runtime takes none from the variable of an unprivileged container, and "
        f"from its mounts only with {BY_MOUNTS[0]} = true. Next step: use volume-mounts with that key in "
        f"{TOOLKIT_CONFIG}, before its first table, or cdi-cri"
    )


def _load(text: str) -> t.Dict[str, t.Any]:
    # Imported only here: most nodes have no toolkit, and the device plugin has to stay small.
    from .text import toml_data

    return toml_data.loads(text)
