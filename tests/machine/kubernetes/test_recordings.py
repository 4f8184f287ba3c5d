# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in for an API server answers as a genuine one has, to all that was asked of that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.kubernetes.recorded import asking, files
from tests.fakes.kubernetes.recorded.scenes import SCENES
from tests.fakes.kubernetes.recorded.steps import WITHOUT, Step, run
from tests.fakes.kubernetes.standin.admission.validation import GATES
from tests.fakes.kubernetes.standin.api import StandIn

RECORDED = {name: files.scenes(name) for name in SCENES}
EVERY = [(name, scene) for name, scenes in RECORDED.items() for scene in scenes]


def test_what_is_asked_is_what_was_recorded() -> None:
    """Where it is not: make recordings KUBE_BIN=folder."""

    def requests(scenes: dict[str, list[Step]]) -> dict[str, list[object]]:
        plain = {key: [replace(one, answer={}) for one in steps] for key, steps in scenes.items()}
        return {key: [one.told() for one in steps] for key, steps in plain.items()}

    for name, scenes in SCENES.items():
        assert requests(scenes) == requests(RECORDED[name]), name


@pytest.mark.parametrize(("name", "scene"), EVERY, ids=[scene for _name, scene in EVERY])
def test_the_stand_in_answers_as_a_genuine_server_has(
    name: str, scene: str, tmp_path: Path
) -> None:
    steps = RECORDED[name][scene]
    server = StandIn(tmp_path)
    for one in steps:
        server.drops += GATES[one.path] if one.method == WITHOUT else ()
    ask = asking.of_standin(server)
    try:
        answers = run(steps, ask)
    finally:
        ask.close()
        server.stop()
    differ = [
        f"{one.who} {one.method} {one.path}\n genuine {json.dumps(one.answer, sort_keys=True)}"
        f"\n standin {json.dumps(answer, sort_keys=True)}"
        for one, answer in zip(steps, answers, strict=True)
        if one.answer != answer
    ]
    assert not differ, "\n".join(differ)
