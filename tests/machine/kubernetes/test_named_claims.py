# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The policy that keeps pods from having a claim together, in an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.kubernetes.administered import KINDS, Administered
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

MANIFEST = REPOSITORY / "files/kubernetes/dra/named-claims-policy.yaml"
TEAM, TRUSTED = "team", "trusted"
NAMED, MADE = {"resourceClaimName": "shared"}, {"resourceClaimTemplateName": "share"}
Json = dict[str, Any]


def pod(space: str, *claims: Json) -> Json:
    listed = [{"name": f"c{number}", **one} for number, one in enumerate(claims)]
    used = {"claims": [{"name": one["name"]} for one in listed]}
    container = {"name": "main", "image": "app", **({"resources": used} if listed else {})}
    meta = {"generateName": "pod-", "namespace": space}
    spec = {"containers": [container], **({"resourceClaims": listed} if listed else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def said(cluster: Administered, space: str, *claims: Json) -> str:
    """Return why a pod with such claims is refused, empty where it is not."""
    path = f"{KINDS['Pod'].format(space)}?dryRun=All"
    try:
        cluster.admin.ask("trying a pod", "POST", path, pod(space, *claims))
    except ApiError as error:
        return f"{error.status} {error.detail}"
    return ""


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        for name, labels in ((TEAM, {}), (TRUSTED, {"gpu.node/named-claims": "allowed"})):
            meta = {"name": name, "labels": labels}
            made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            account = {"name": "default", "namespace": name}
            made.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        for one in yaml.safe_load(MANIFEST.read_text())["items"]:
            made.create(one)
        eventually(lambda: said(made, TEAM, NAMED))  # a server knows of a policy a moment later
        yield made


@pytest.mark.attack("claim-named-by-many")
def test_a_pod_that_names_a_claim_is_refused_with_what_to_do(cluster: Administered) -> None:
    for claims in ((NAMED,), (MADE, NAMED)):
        why = said(cluster, TEAM, *claims)
        assert why.startswith("403 ")
        assert "denied request: pods of this namespace name no claims" in why
        assert "resourceClaimTemplateName" in why


@pytest.mark.attack("claim-named-by-many")
def test_other_pods_and_namespaces_that_may_are_let_through(cluster: Administered) -> None:
    for space, claims in ((TEAM, ()), (TEAM, (MADE, MADE)), (TRUSTED, (NAMED,))):
        assert said(cluster, space, *claims) == "", (space, claims)
