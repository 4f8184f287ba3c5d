# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the pages show of Kubernetes' objects, whole or in part, is taken by an API server, strictly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.docs.examples import kinds
from tests.docs.tables import examples, pages
from tests.fakes.kubernetes.administered import KINDS, Administered

EVERY = [one for page in pages.pages() for one in examples.examples(page)]
# As the page of the allocation modes has them for monitoring.
MONITORING = {"name": "monitoring", "labels": {"resource.kubernetes.io/admin-access": "true"}}
# The Prometheus operator's are not Kubernetes' own.
OBJECTS = [
    pytest.param(each, id=f"{one.page}-{one.number}-{each['kind']}")
    for one in EVERY
    for each in kinds.objects(one.data)
    if not each["apiVersion"].startswith("monitoring.coreos.com/")
]


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        meta = {"name": "default", "namespace": "default"}
        made.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": MONITORING})
        yield made


def refused(cluster: Administered, one: dict[str, Any]) -> str:
    """Return what the server says against an object, nothing where it would take it."""
    space = one["metadata"].get("namespace", "default")
    path = f"{KINDS[one['kind']].format(space)}?fieldValidation=Strict&dryRun=All"
    try:
        cluster.admin.ask("trying", "POST", path, one)
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("one", OBJECTS)
def test_an_api_server_takes_the_example(cluster: Administered, one: dict[str, Any]) -> None:
    assert refused(cluster, one) == ""


def test_one_with_an_unknown_field_is_not(cluster: Administered) -> None:
    (pod,) = kinds.objects({"resources": {"limits": {"nvidia.com/gpu": 1}}})
    pod["containerz"] = []  # further down the stand-in does not look
    assert "containerz" in refused(cluster, pod)
