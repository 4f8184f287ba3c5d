# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-cluster simulate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpu_plugin._shared._base.dra import versions
from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version
from gpu_plugin._shared._base.errors import InputError, NodeError, damaged
from gpu_plugin.cluster.access import Access, version

from ..hami import mutation, published, settings
from . import answer, inventory, nodes, objects, pods
from .scheduler import Outcome, Scheduler, State

PENDING: Final = 3  # the exit status where a pod stays pending
Json = Mapping[str, Any]
Mutate = Callable[[Json, str, str], Json]


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Say which pods would run on which nodes, and why others would stay pending. Nothing is changed."
        f" The exit status is 0 where all run and {PENDING} where some stay pending."
    )
    add = parser.add_argument
    add(
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
    add("--kubeconfig", default="", metavar="FILE", help="how to reach the cluster")
    which = "the version whose scheduler is simulated; without it that of the cluster, or"
    newest = versions.text(RECOMMENDED)
    add("--kubernetes", default="", metavar="VERSION", help=f"{which} {newest}")
    add("--hami-config", metavar="FILE", help="HAMi's device-config.yaml")
    order = "fill nodes one after the other, instead of the least loaded first"
    add("--pack", action="store_true", help=order)
    add("--pods", action="store_true", help="list each pod, however many there are")
    add("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Simulate, print what was found, and return the exit status. NodeError: something can't be read."""
    given = [one for file in options.files for one in objects.parse(_text(file), file)]
    if not options.files and not (options.cluster or options.slices):
        raise NodeError("there are no manifests", hint="name files, or - for the standard input")
    try:
        state, outcomes = _simulated(options, given)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged("an object", error, "check it with kubectl apply --dry-run=server") from error
    if options.json:
        print(json.dumps(answer.as_json(outcomes, state), indent=2))
    else:
        print(answer.table(outcomes, state.warnings, every=options.pods))
    return 0 if all(one.node for one in outcomes) else PENDING


def _simulated(options: argparse.Namespace, given: list[Json]) -> tuple[State, list[Outcome]]:
    """Return what is known in the end, and what became of each pod."""
    access = Access(options.kubeconfig).connect() if options.cluster else None
    if options.inventory:
        found, there = inventory.nodes(_text(options.inventory), options.inventory)
    else:
        file = options.slices
        there = [*objects.fetch(access)] if access else objects.parse(_text(file), file)
        found = nodes.read(there)
    state = State(found, {} if access else dict(objects.CLASSES))
    state.version = _version(options, version(access) if access else None, state.warnings)
    every = [*there, *given]
    kinds = {"ResourceClaimTemplate": state.templates, "ResourceClaim": state.claims}
    for one in every:
        meta = one.get("metadata") or {}
        if one["kind"] in kinds:
            kinds[one["kind"]][str(meta.get("namespace") or "default"), str(meta["name"])] = one
        elif one["kind"] == "DeviceClass":
            state.classes[str(meta["name"])] = one
    waiting = [
        one for one in there if one["kind"] == "Pod" and not (nodes.placed(one) or nodes.ended(one))
    ]
    asked = given if options.files else waiting
    priorities = pods.SYSTEM | {
        str(one["metadata"]["name"]): int(one.get("value") or 0)
        for one in every
        if one["kind"] == "PriorityClass"
    }
    mutate = _mutator(options.hami_config, there, state)

    def suits(shape: pods.Shape) -> list[str]:
        return [one.name for one in state.nodes if not nodes.unsuitable(shape, one)]

    made = (
        pod
        for one in asked
        if one["kind"] in pods.KINDS
        for pod in pods.pods(one, mutate, suits, priorities, state.warnings)
    )
    wanted = list(made)  # the templates that are made for them too
    return state, Scheduler(state, pack=options.pack).run(wanted)


def _mutator(file: str | None, there: Iterable[Json], state: State) -> Mutate:
    """Return what changes a pod of a namespace and an owner as the webhook would, with HAMi's configuration."""
    configured = settings.parse(_text(file), file) if file else settings.Settings()
    devices = published.of(one for one in there if one["kind"] == "ResourceSlice")
    state.warnings.extend(configured.notes)

    def mutate(pod: Json, namespace: str, owner: str) -> Json:
        found = mutation.mutate(pod, configured, devices)
        state.warnings.extend(f"{owner}: {one}" for one in found.warnings)
        state.templates.update(
            {(namespace, one.name): {"spec": one.spec} for one in found.templates}
        )
        return objects.patched(pod, found.patch)

    return mutate


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


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(objects.MOST_BYTES + 1)
        with Path(file).open(encoding="utf-8") as opened:
            return opened.read(objects.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NodeError(f"{file} can't be read", cause=str(error)) from error
