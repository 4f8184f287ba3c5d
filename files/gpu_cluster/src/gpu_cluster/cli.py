# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line of gpu-cluster: a webhook for pods with HAMi's resources, and previews of what it creates."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gpu_plugin.tools import commands

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return commands.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    """Return the parser, which pages and their tests read too."""
    return commands.parser(
        f"gpu-cluster {__version__}",
        "Have pods share GPUs, from the cluster or from a desk",
        commands.package_command(
            f"{__package__}.webhook", "let pods with HAMi's resources run with claims"
        ),
        commands.package_command(
            f"{__package__}.show", "print claims of manifests, and slices of planned nodes"
        ),
    )
