# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects of Kubernetes as YAML or JSON text."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.text.shown import cut

MOST_BYTES: Final = 64 << 20
DEEPEST: Final = 100
Json = dict[str, Any]
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def objects(text: str, source: str) -> list[Json]:
    """Return the objects of a text, those of lists one by one. NodeError: it holds something else."""
    return list(_flat(_documents(text, source), source))


def _documents(text: str, source: str) -> list[Any]:
    if len(text) > MOST_BYTES:
        raise NodeError(f"{source}: it is longer than {MOST_BYTES >> 20} MiB")
    try:
        if text.lstrip().startswith("{"):  # what kubectl writes as JSON is read much faster as that
            with contextlib.suppress(ValueError):
                return [json.loads(text)]
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, LookupError) as error:
        hint = "give manifests such as kubectl apply takes"
        raise NodeError(f"{source}: not valid YAML", cause=cut(str(error)), hint=hint) from error


def _flat(documents: Iterable[Any], source: str) -> Iterator[Json]:
    for number, one in enumerate(documents):
        if one is None:
            continue
        if not isinstance(one, dict) or not isinstance(one.get("kind"), str):
            raise NodeError(
                f"{source}: document {number + 1} is no object of Kubernetes",
                cause="it has no kind",
                hint="give manifests such as kubectl apply takes",
            )
        if one["kind"].endswith("List") and isinstance(one.get("items"), list):
            kind = one["kind"].removesuffix("List")
            yield from _flat(
                ({"kind": kind, **item} if kind else item for item in one["items"]), source
            )
        else:
            yield one
