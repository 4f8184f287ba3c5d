# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that ask for a part of a GPU, in a cluster whose nodes have DRA."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.cluster import IMAGE, SHOW
from tests.support.paths import REPOSITORY

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

MANIFESTS = REPOSITORY / "files/kubernetes/dra"
RESOURCE = "resource.k8s.io/v1"
Json = dict[str, Any]


def manifests(cluster: Cluster, *names: str) -> None:
    """Apply manifests that the project ships."""
    for name in names:
        cluster.apply(yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()))


def template(cluster: Cluster, name: str, device_class: str, **requests: str) -> None:
    """Make a claim template for one device with such capacities."""
    exactly: Json = {"deviceClassName": device_class}
    if requests:
        exactly["capacity"] = {"requests": requests}
    devices = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    cluster.apply(
        {
            "apiVersion": RESOURCE,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {"spec": devices},
        }
    )


def pod(template_name: str, command: str = SHOW) -> Json:
    """Return the spec of a pod with a claim of a template."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    return {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template_name}],
        "containers": [container],
    }


def deploy(cluster: Cluster, name: str, replicas: int, spec: Json) -> None:
    """Make a Deployment of such pods."""
    labels = {"app": name}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "replicas": replicas,
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )


def phases(cluster: Cluster, name: str) -> Counter[str]:
    """Return how many pods of a Deployment are in each phase."""
    found = cluster.get("pods", f"--selector=app={name}")
    alive = [one for one in found if "deletionTimestamp" not in one["metadata"]]
    return Counter(one["status"]["phase"] for one in alive)


def devices(cluster: Cluster) -> Counter[str]:
    """Return how often each device is allocated."""
    claims = cluster.get("resourceclaims", "--all-namespaces")
    given = [claim.get("status", {}).get("allocation", {}) for claim in claims]
    return Counter(
        result["device"] for one in given for result in one.get("devices", {}).get("results", [])
    )


def remove(cluster: Cluster, name: str) -> None:
    """Remove a Deployment with its pods, and wait until they are gone."""
    cluster.kubectl("delete", "deployment", name, "--cascade=foreground", "--wait=true")
