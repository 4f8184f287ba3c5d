# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-cluster show``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from gpu_plugin._shared._base.errors import NodeError, damaged
from gpu_plugin.tools import commands, logs

from ..hami import options as hami_options
from ..hami import published
from ..hami.errors import Refused
from . import inventory, manifests

Json = Mapping[str, Any]
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Print manifests with the claims that the webhook makes of HAMi's resources, and the Nodes, ResourceSlices"
        " and DeviceClasses of an inventory, for kubectl apply. Nothing is changed. The exit status is 1 if the"
        " webhook would refuse one of the manifests."
    )
    parser.add_argument(
        "manifests",
        nargs="*",
        metavar="MANIFEST",
        help="YAML or JSON as kubectl apply takes it; - is the standard input",
    )
    parser.add_argument("--inventory", metavar="FILE", help="a file that describes nodes")
    commands.texts(parser, hami_options.TEXTS)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Print the objects, and log warnings and refusals.

    Returns:
        The exit status: 1 if the webhook would refuse a manifest.

    Raises:
        NodeError: if a file can't be read or used.
    """
    if not options.manifests and not options.inventory:
        raise NodeError(
            "there is nothing to show", hint="name manifests, --inventory FILE, or both"
        )
    hami = hami_options.read_settings(options, _read)
    for note in hami.notes:
        logs.warning(note)
    objects: list[Json] = []
    if options.inventory:
        objects += manifests.DEVICE_CLASSES
        objects += inventory.parse(_read(options.inventory), options.inventory)
    sources = [(path, _read(path)) for path in options.manifests]
    parsed = [manifest for path, text in sources for manifest in manifests.parse(text, path)]
    slices = (item for item in (*objects, *parsed) if item["kind"] == "ResourceSlice")
    devices = published.of(slices)
    status = 0
    for manifest in parsed:
        try:
            objects += manifests.admit(manifest, hami, devices, warn=logs.warning)
        except Refused as error:
            logs.error(f"{manifests.identify(manifest)}: {error}")
            status = 1
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            hint = "check it with kubectl apply --dry-run=server"
            raise damaged(manifests.identify(manifest), error, hint) from error
    yaml.dump_all(
        objects, sys.stdout, Dumper=_DUMPER, sort_keys=False, explicit_start=True, width=120
    )
    return status


def _read(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read(manifests.MAX_BYTES + 1)
        with Path(path).open(encoding="utf-8") as stream:
            return stream.read(manifests.MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NodeError(f"{path} can't be read", cause=str(error)) from error
