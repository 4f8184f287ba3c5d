# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""API servers: the stand-in, and a genuine one where KUBE_BIN names a folder with kube-apiserver and etcd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes.administered import Administered, StandInApi
from tests.fakes.kubernetes.genuine_api import GenuineApi
from tests.fakes.kubernetes.webhook_cluster import CLUSTERS, Cluster

KINDS: dict[str, type[Administered]] = {"stand-in": StandInApi, "genuine": GenuineApi}


@pytest.fixture(
    scope="module", params=["stand-in", pytest.param("genuine", marks=pytest.mark.long)]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Which API server answers; all that is asked here has the same answers of both."""
    return str(request.param)


@pytest.fixture(scope="module")
def api_server(kind: str) -> type[Administered]:
    """What starts an API server."""
    return KINDS[kind]


@pytest.fixture(scope="module")
def webhook_cluster(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server that asks the webhook of each pod, for all tests of a module."""
    with CLUSTERS[kind](tmp_path_factory.mktemp("api")) as made:
        yield made


@pytest.fixture
def cluster(webhook_cluster: Cluster) -> Iterator[Cluster]:
    """The same without a replica of the webhook, before and after."""
    yield webhook_cluster
    webhook_cluster.alone()
