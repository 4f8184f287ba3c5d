# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The model gives what the genuine allocators of Kubernetes' versions gave in the same random cases."""

from __future__ import annotations

import pytest
from gpu_plugin._shared._base.dra.versions import OLDEST, RECOMMENDED, Version, text

from tests.fakes.cluster.placing import answers
from tests.fakes.cluster.random_claims import ALONE, Case
from tests.support.paths import FAKES

RECORDED = {
    version: (FAKES / f"cluster/genuine/answers-{text(version)}.txt").read_text().splitlines()
    for version in (OLDEST, RECOMMENDED)
}


@pytest.mark.parametrize("version", RECORDED, ids=text)
def test_the_model_agrees_with_the_genuine_allocator(version: Version) -> None:
    recorded = RECORDED[version]
    found = {seed: ";".join(answers(Case(seed).made(), version)) for seed in range(len(recorded))}
    assert found == dict(enumerate(recorded))


def test_the_recordings_have_answers_of_each_kind() -> None:
    for lines in RECORDED.values():
        given = [one for line in lines for one in line.split(";")]
        assert given.count("-") > 1000
        assert given.count("!") > 100
        assert sum("-share" in one for one in given) > 200
        assert sum("-mig-" in one for one in given) > 30
        assert sum("/s" in one for one in given) > 30


def test_the_recordings_have_what_the_versions_do_otherwise_and_other_nodes() -> None:
    older, newer = RECORDED.values()
    assert (len(older), len(newer)) == (ALONE, 600)
    pairs = zip(older, newer, strict=False)
    assert sum(one != other for one, other in pairs) == 13
