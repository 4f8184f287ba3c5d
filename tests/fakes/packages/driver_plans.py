# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver's capability plans, refuses and reports in each scene: as it is kept, and as this run has it.

A record is a list of lines, of which the last is a digest of all that the plan has: parameters, before and after.
`KEEP_PLANS=1 pytest tests/machine/library/driver` writes the records of the scenes that it runs anew.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import DriverCapability

from tests.fakes.played import memory

FOLDER = Path(__file__).parent / "recordings/plans"
KEEP = bool(os.environ.get("KEEP_PLANS"))
# Each run has another folder and another port.
OWN = re.compile(r"http://127\.0\.0\.1:\d+|(?:/[\w.-]+)*/gpu-node-\w{8}(?=/)")
# What the summary of a step says too.
SAID = ("packages", "remove", "taken", "hold", "release")


class Recorder:
    """Writes down what the capability plans; what is made once and copied from then on is not written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, list[list[str]]] = {}
        self._quiet = 0
        for name in ("plan", "result"):
            told = self._told(name, getattr(DriverCapability, name))
            monkeypatch.setattr(DriverCapability, name, told)
        monkeypatch.setattr(memory, "once", self._unheard(memory.once))

    def _unheard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def heard(*args: Any) -> Any:
            self._quiet += 1
            try:
                return call(*args)
            finally:
                self._quiet -= 1

        return heard

    def _told(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        inner = self._unheard(call)

        def told(capability: Any, state: Any, *args: Any) -> Any:
            loud = not self._quiet
            try:
                found = inner(capability, state, *args)
            except NodeError as error:
                told_of = {"refused": type(error).__name__, **vars(error)}
                self._add(state.machine.traits.name, told_of, loud=loud)
                raise
            self._add(state.machine.traits.name, {name: found}, loud=loud)
            return found

        return told

    def _add(self, family: str, found: Any, *, loud: bool) -> None:
        rows = self.found.setdefault(family, [])
        row = lines(plain(found))
        if loud and row not in rows:
            rows.append(row)


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return a plan, a refusal or a result for people, and a digest of the whole."""
    rows = []
    plan = found.get("plan", {})
    for step in plan.get("steps", []):
        more = {key: one for key, one in step.get("params", {}).items() if key not in SAID}
        words = [
            f"{step['action']}: {step['summary']}",
            *(f"needs {one}" for one in step.get("needs", [])),
        ]
        rows.append(
            "; ".join(
                [
                    *words,
                    *(f"{key} {json.dumps(more[key], sort_keys=True)}" for key in sorted(more)),
                ]
            )
        )
    for key in ("reboot_required", "blocked_by", "warnings"):
        rows += [f"{key}: {one}" for one in plan.get(key, [])]
    rows += [f"refused: {found[key]}" for key in ("message", "cause", "hint") if key in found]
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
    return [*rows, digest]


def kept(family: str) -> dict[str, list[list[str]]]:
    """Return the records of a family by their scenes."""
    path = FOLDER / f"{family}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(family: str, scenes: Mapping[str, list[list[str]]]) -> None:
    """Write records over those of the same scenes."""
    text = json.dumps({**kept(family), **scenes}, indent=0, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{family}.json").write_text(f"{text}\n")


def plain(value: Any) -> Any:
    """Return a value as JSON has it, without what it does not say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        found = {str(key): plain(one) for key, one in value.items()}
        return {key: one for key, one in found.items() if one not in ("", None, False, [], {})}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value))
    if isinstance(value, (list, tuple)):
        return [*map(plain, value)]
    if isinstance(value, str):
        return OWN.sub("<own>", value)
    return value if value is None or isinstance(value, (bool, int)) else str(value)
