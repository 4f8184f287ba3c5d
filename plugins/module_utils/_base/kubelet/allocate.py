# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a kubelet understands of the device plugin's answers, by its version.

It drops a field of Allocate's answer that it does not know, and starts the container without the GPU.
"""

from __future__ import annotations

import typing as t

from ..dra.versions import FIRST, Version, parse
from ..dra.versions import text as shown
from ..errors import InputError
from ..visible_devices import strategies

# cdi_devices: KEP-4009, the feature gate DevicePluginCDIDevices, which is on by default from 1.29 on. Annotations,
# variables, and mounts are as old as the API.
SINCE: t.Mapping[str, Version] = {"cdi-cri": (1, 29, 0)}
INSTEAD = "cdi-annotations"


def not_understood(config: t.Any, printed: str) -> t.Tuple[str, ...]:
    """Return the strategies of a configuration where the kubelet understands none of them.

    Args:
        config: The configuration of a device plugin.
        printed: What ``kubelet --version`` prints. Empty if it can't be asked.
    """
    chosen, version = strategies(config), parse(printed)
    understood = version is None or any(version >= SINCE.get(name, FIRST) for name in chosen)
    return () if understood else chosen


def refusal(variable: str, chosen: t.Sequence[str], printed: str) -> InputError:
    """Return the error of a configuration of which the kubelet understands nothing."""
    floor, version = shown(max(SINCE[name] for name in chosen)), parse(printed)
    expected = (
        f"one that the node's kubelet passes on: it is of Kubernetes {shown(version or FIRST)} and knows the answer of "
        f"{' and '.join(chosen)} from {floor} on, so pods would start without a GPU"
    )
    error = InputError.of(f"{variable}: flags.plugin.deviceListStrategy", list(chosen), expected)
    hint = f"set deviceListStrategy: [{INSTEAD}] there, or upgrade Kubernetes to {floor}"
    return InputError(error.message, cause=error.cause, hint=hint, key=variable)
