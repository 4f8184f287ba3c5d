# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Any pod: the patch applies, changes nothing else, and a second time there is nothing to change."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from gpu_cluster.hami import cel
from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.settings import Names, Settings
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.fakes.cluster.hami_pods import (
    BOTH_NODES,
    MIG_NODES,
    MPS_NODES,
    OTHER_NODES,
    SETTINGS,
    Json,
    applied,
)

LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = st.from_regex("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
AMOUNT = st.one_of(st.integers(0, 101), st.sampled_from(["1", "30", "2k", "1Gi", "-1", "x", 3000]))
# Names with what a JSON pointer has to escape.
ODD = Names("a.io/g~1", "a.io/m~0", "a.io/p~", "a.io/c", "a.io/~")
ALL = (*SETTINGS.names.all, *ODD.all, "cpu", "memory", "nvidia.com/mig-1g.5gb", "other.io/~1")
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.one_of(st.none(), st.dictionaries(st.sampled_from(ALL), AMOUNT, max_size=4)),
        "requests": st.one_of(st.none(), st.dictionaries(st.sampled_from(ALL), AMOUNT, max_size=2)),
        "claims": st.lists(st.fixed_dictionaries({"name": NAME}), max_size=2),
    },
)
CONTAINER = st.fixed_dictionaries(
    {"name": NAME},
    optional={
        "resources": st.one_of(st.none(), RESOURCES),
        "restartPolicy": st.just("Always"),
        "securityContext": st.fixed_dictionaries({"privileged": st.booleans()}),
        "env": st.lists(st.fixed_dictionaries({"name": st.text(), "value": st.text()}), max_size=2),
    },
)
SHARE = st.builds(
    lambda one, names, count, memory, cores: {
        **one,
        "resources": {"limits": {names.count: count, names.memory: memory, names.cores: cores}},
    },
    CONTAINER,
    st.sampled_from([SETTINGS.names, ODD]),
    st.integers(1, 2),
    st.integers(1, 9),
    st.sampled_from([0, 30, 100]),
)
WORDS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["A100,V100", "GPU-0", "true", "mig", "mps", "hami-core,mig"]),
)
KEYS = ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid", "numa-bind", "vgpu-mode")
ANNOTATIONS = st.dictionaries(
    st.sampled_from([f"nvidia.com/{key}" for key in KEYS]), WORDS, max_size=3
)
UNIQUE = {"unique_by": lambda one: one["name"]}
SPEC = st.fixed_dictionaries(
    {"containers": st.lists(SHARE | CONTAINER, min_size=1, max_size=3, **UNIQUE)},  # type: ignore[arg-type]
    optional={
        "initContainers": st.lists(SHARE | CONTAINER, max_size=2),
        "resourceClaims": st.one_of(
            st.none(),
            st.lists(
                st.fixed_dictionaries({"name": NAME, "resourceClaimName": NAME}),
                max_size=2,
                **UNIQUE,
            ),  # type: ignore[arg-type]
        ),
        "schedulerName": st.sampled_from(["default-scheduler", "hami-scheduler", "other"]),
        "nodeName": st.sampled_from(["", "node-1"]),
    },
)
PODS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"annotations": ANNOTATIONS}), "spec": SPEC}
)
CHOICES = st.tuples(
    st.sampled_from([SETTINGS, Settings(ODD), Settings(default_memory=100, default_count=2)]),
    st.sampled_from([MPS_NODES, OTHER_NODES, MIG_NODES, BOTH_NODES]),
)


def stripped(one: Json, names: Names) -> Json:
    """Return a pod without what the webhook may change."""
    one = copy.deepcopy(one)
    one["spec"].pop("resourceClaims", None)
    one["spec"].pop("schedulerName", None)
    for kind in ("containers", "initContainers"):
        for container in one["spec"].get(kind) or ():
            resources = container.get("resources") or {}
            resources.pop("claims", None)
            for part in ("limits", "requests"):
                for name in names.all:
                    (resources.get(part) or {}).pop(name, None)
    return one


@settings(max_examples=500)
@given(PODS, CHOICES)
def test_any_pod(one: Json, choice: tuple[Settings, Any]) -> None:
    chosen, published = choice
    before = copy.deepcopy(one)
    try:
        found = mutate(one, chosen, published)
    except Refused as told:
        event("refused")
        _check_refusal(str(told))
        return
    event("changed" if found.templates else "as it was")
    assert one == before
    after = applied(one, found.patch)
    assert stripped(after, chosen.names) == stripped(one, chosen.names)
    again = mutate(after, chosen, published)
    assert (again.patch, again.templates) == ([], ())
    _check_claims(one, after, {template.name for template in found.templates})


def _check_refusal(told: str) -> None:
    assert re.match(r"(spec|metadata)\.", told)


def _check_claims(one: Json, after: Json, templates: set[str]) -> None:
    """The pod's claims have unique names that are labels, and each container's are the pod's."""
    held = one["spec"].get("resourceClaims") or []
    claims = after["spec"].get("resourceClaims") or []
    assert claims[: len(held)] == held
    names = [claim["name"] for claim in claims]
    assert len(set(names)) == len(names)
    added = claims[len(held) :]
    assert all(LABEL.fullmatch(claim["name"]) for claim in added)
    assert {claim["resourceClaimTemplateName"] for claim in added} == templates
    used = set()
    for kind in ("containers", "initContainers"):
        pairs = zip(one["spec"].get(kind) or (), after["spec"].get(kind) or (), strict=True)
        for old, new in pairs:
            before = (old.get("resources") or {}).get("claims") or []
            now = (new.get("resources") or {}).get("claims") or []
            assert now[: len(before)] == before
            used |= {claim["name"] for claim in now[len(before) :]}
    assert used == {claim["name"] for claim in added}


@pytest.mark.attack("annotation-as-a-selector")
@given(st.text())
def test_a_quoted_text_holds_nothing_that_ends_it(text: str) -> None:
    assume(not any(0xD800 <= ord(one) < 0xE000 for one in text))
    quoted = cel.quoted(text)
    assert re.fullmatch(r'"(?:[A-Za-z0-9 \-_.:/+,()]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*"', quoted)
    codes = re.sub(
        r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})",
        lambda found: chr(int(found[1] or found[2], 16)),
        quoted[1:-1],
    )
    assert codes == text
