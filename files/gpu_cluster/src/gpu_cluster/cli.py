# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line of gpu-cluster: a webhook for pods with HAMi's resources, and previews of what it creates."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_plugin.tools import commands

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status."""
    parser = commands.parser(
        f"gpu-cluster {__version__}",
        "Have pods share GPUs, from the cluster or from a desk",
        commands.package_command(
            f"{__package__}.webhook", "let pods with HAMi's resources run with claims"
        ),
        commands.package_command(
            f"{__package__}.show", "print claims of manifests, and slices of planned nodes"
        ),
    )
    return commands.run(parser, arguments)
