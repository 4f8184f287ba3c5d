# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-cluster simulate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpu_plugin._shared._base.dra import versions
from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version
from gpu_plugin._shared._base.errors import InputError, NodeError, damaged
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.version import version

from . import answer
from .cluster_state import Claims, State
from .scheduling import Scheduler
from .sources import cluster, inventory, manifests, pods
from .sources.classes import CLASSES
from .sources.hami import mutator
from .values import Node, Outcome

PENDING: Final = 3  # the exit status where a pod stays pending
Json = Mapping[str, Any]


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Say which pods would run on which nodes, and why others would stay pending. Nothing is changed."
        f" The exit status is 0 where all run and {PENDING} where some stay pending."
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="MANIFEST",
        help="pods, workloads, claims, their templates and DeviceClasses as YAML or JSON; - is the standard input;"
        " without any, the pending pods of the cluster",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--inventory", metavar="FILE", help="nodes that a file describes")
    where.add_argument(
        "--slices", metavar="FILE", help="nodes with these ResourceSlices, claims and pods"
    )
    where.add_argument("--cluster", action="store_true", help="the nodes of the cluster")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="how to reach the cluster")
    parser.add_argument(
        "--kubernetes",
        default="",
        metavar="VERSION",
        help="the version whose scheduler is simulated; without it that of the cluster, or"
        f" {versions.text(RECOMMENDED)}",
    )
    parser.add_argument("--hami-config", metavar="FILE", help="HAMi's device-config.yaml")
    parser.add_argument(
        "--pack",
        action="store_true",
        help="fill nodes one after the other, instead of the least loaded first",
    )
    parser.add_argument("--pods", action="store_true", help="list each pod, however many there are")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Simulate, print what was found, and return the exit status. NodeError: something can't be read."""
    state, outcomes = simulated(options)
    if options.json:
        print(json.dumps(answer.as_json(outcomes, state), indent=2))
    else:
        print(answer.table(outcomes, state.warnings, every=options.pods))
    return 0 if all(one.node for one in outcomes) else PENDING


def simulated(options: argparse.Namespace) -> tuple[State, list[Outcome]]:
    """Return what is known in the end, and what became of each pod."""
    given = [one for file in options.files for one in manifests.objects(_text(file), file)]
    if not options.files and not (options.cluster or options.slices):
        raise NodeError("there are no manifests", hint="name files, or - for the standard input")
    try:
        return _simulated(options, given, *_there(options))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged("an object", error, "check it with kubectl apply --dry-run=server") from error


def _there(options: argparse.Namespace) -> tuple[list[Node], list[Json], Version | None]:
    """Return the nodes, the objects of the cluster or of what stands for it, and the cluster's version."""
    if options.inventory:
        return *inventory.nodes(_text(options.inventory), options.inventory), None
    access = Access(options.kubeconfig).connect() if options.cluster else None
    objects: list[Json] = (
        cluster.fetch(access)
        if access
        else [*manifests.objects(_text(options.slices), options.slices)]
    )
    return cluster.nodes(objects), objects, version(access) if access else None


def _version(options: argparse.Namespace, there: Version | None, warnings: list[str]) -> Version:
    """Return the version that is simulated. NodeError: it is none, or one that is not safe with the driver."""
    newest = versions.text(RECOMMENDED)
    found = versions.parse(options.kubernetes) if options.kubernetes else there or RECOMMENDED
    if found is None:
        raise InputError.of("--kubernetes", options.kubernetes, f"a version such as {newest}")
    if why := versions.refusal(found):
        hint = f"upgrade it to {newest}, whose answer --kubernetes {newest} shows"
        raise NodeError(f"{why}, is not simulated", hint=hint)
    if options.cluster and not options.kubernetes and there is None:
        warnings.append("which version the cluster is of: it does not say")
    if found > RECOMMENDED:
        warnings.append(f"what Kubernetes {versions.text(found)} does otherwise than {newest}")
    return found


def _simulated(
    options: argparse.Namespace,
    given: list[dict[str, Any]],
    nodes: list[Node],
    there: list[Json],
    running: Version | None,
) -> tuple[State, list[Outcome]]:
    state = State(nodes, {} if options.cluster else dict(CLASSES))
    state.version = _version(options, running, state.warnings)
    every = [*there, *given]
    pods.add(state, every)
    claims = Claims(state)
    pods.add_shared(state, every, claims)
    asked = given if options.files else [one for one in there if _waits(one)]
    published = [one for one in there if one["kind"] == "ResourceSlice"]
    text = _text(options.hami_config) if options.hami_config else ""
    mutate = mutator(text, options.hami_config or "", published, state.warnings)
    found = pods.read(asked, state, mutate, pods.priorities(every))
    return state, Scheduler(state, claims, pack=options.pack).run(found)


def _waits(one: Json) -> bool:
    """Return whether an object of a cluster is a pod that has no node yet."""
    return bool(one["kind"] == "Pod" and not cluster.placed(one) and not cluster.ended(one))


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(manifests.MOST_BYTES + 1)
        with Path(file).open(encoding="utf-8") as opened:
            return opened.read(manifests.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NodeError(f"{file} can't be read", cause=str(error)) from error
