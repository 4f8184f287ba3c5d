# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulations in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster import cli

Json = dict[str, Any]
TWO_OF_32 = {"name": "n", "gpus": [{"product": "Tesla V100", "memory": "32Gi", "count": 2}]}


def pod(name: str = "p", annotations: Mapping[str, str] | None = None, **limits: Any) -> Json:
    """Return a pod of one container with HAMi's resources: gpu, gpumem, gpumem_percentage, gpucores."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"containers": [container("c", **limits)]},
    }


def container(name: str, **limits: Any) -> Json:
    """Return a container with HAMi's resources, which it may name with an underscore in place of a dash."""
    named = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in limits.items()}
    return {"name": name, "image": "x", "resources": {"limits": named}}


def deployment(count: int, of: Json, name: str = "web") -> Json:
    """Return a Deployment of a pod."""
    template = {"metadata": of["metadata"], "spec": of["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": count, "template": template},
    }


def claiming(name: str, *templates: str) -> Json:
    """Return a pod with claims made of templates."""
    named = [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}], "resourceClaims": named},
    }


def template(name: str, *requests: Json, **devices: Any) -> Json:
    """Return a ResourceClaimTemplate."""
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec}}


def share(name: str = "r", count: int = 1, **capacity: str) -> Json:
    """Return a request for shares."""
    asked = {
        "deviceClassName": "share.gpu.node",
        "count": count,
        "capacity": {"requests": capacity},
    }
    return {"name": name, "exactly": asked}


def whole(name: str = "r", kind: str = "gpu", **more: Any) -> Json:
    """Return a request for a whole GPU or a MIG device."""
    return {"name": name, "exactly": {"deviceClassName": f"{kind}.gpu.node", **more}}


class Simulated:
    """What a simulation printed as JSON."""

    def __init__(self, status: int, found: Json) -> None:
        self.status, self.json = status, found
        self.pods = {one["name"]: one for one in found["pods"]}

    @property
    def counts(self) -> tuple[int, int]:
        """How many pods run and how many wait."""
        return self.json["running"], self.json["pending"]

    def devices(self, name: str) -> list[str]:
        """Return the devices of a pod, [] where it waits."""
        return [one["device"] for one in self.pods[name].get("devices", ())]

    def why(self, name: str) -> str:
        """Return why a pod waits."""
        return "; ".join(one["text"] for one in self.pods[name]["reasons"])


def simulate(
    folder: Path, capsys: Any, nodes: Sequence[Json], objects: Sequence[Json], *options: str
) -> Simulated:
    """Run the command."""
    inventory, manifests = folder / "nodes.yaml", folder / "pods.yaml"
    inventory.write_text(json.dumps({"nodes": list(nodes)}))
    manifests.write_text("\n---\n".join(json.dumps(one) for one in objects))
    words = ["simulate", "--json", "--inventory", str(inventory), str(manifests), *options]
    status = cli.main(words)
    return Simulated(status, json.loads(capsys.readouterr().out))
