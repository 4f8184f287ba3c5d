# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The model gives what the genuine allocator of Kubernetes 1.36.2 gave in the same random cases."""

from __future__ import annotations

from tests.fakes.cluster.placing import answers
from tests.fakes.cluster.random_claims import Case
from tests.support.paths import FAKES

RECORDED = (FAKES / "cluster/genuine/answers.txt").read_text().splitlines()


def test_the_model_agrees_with_the_genuine_allocator() -> None:
    found = {seed: ";".join(answers(Case(seed).made())) for seed in range(len(RECORDED))}
    assert found == dict(enumerate(RECORDED))


def test_the_recording_has_answers_of_each_kind() -> None:
    given = [one for line in RECORDED for one in line.split(";")]
    assert len(RECORDED) == 400
    assert given.count("-") > 1000
    assert given.count("!") > 100
    assert sum("-share" in one for one in given) > 200
    assert sum("-mig-" in one for one in given) > 30
    assert sum("/s" in one for one in given) > 30
