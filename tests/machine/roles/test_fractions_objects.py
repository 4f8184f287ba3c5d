# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The objects that the role fractions makes of its variables for HAMi's pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.docs.examples import rendering
from tests.support.roles import defaults

Json = dict[str, Any]
IMAGE = {"fractions_image": "registry.example.com/gpu-node-webhook@sha256:" + "1" * 64}
CONFIG = {"fractions_device_config": "nvidia:\n  defaultMem: 5000\n"}


def render(folder: Path, **variables: Any) -> list[Json]:
    """Return the objects that the role keeps with these variables."""
    (answer,) = rendering.render([{**IMAGE, **variables}], defaults(), folder)
    assert answer["error"] == ""
    return [item for each in answer["objects"] for item in each.get("items", [each])]


def config_map(objects: list[Json]) -> Json:
    """Return the data of the webhook's ConfigMap, empty if there is none."""
    maps = [item for item in objects if item["kind"] == "ConfigMap"]
    assert len(maps) <= 1
    return dict(maps[0]["data"]) if maps else {}


def environment(objects: list[Json]) -> set[str]:
    """Return the keys of that ConfigMap that the webhook's pods read."""
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    sources = [item.get("valueFrom", {}).get("configMapKeyRef", {}) for item in container["env"]]
    return {source["key"] for source in sources if source.get("name") == "gpu-node-webhook-hami"}


def conditions(objects: list[Json]) -> str:
    """Return the condition under which API servers ask the webhook."""
    (hook,) = [item for item in objects if item["kind"] == "MutatingWebhookConfiguration"]
    return str(hook["webhooks"][0]["matchConditions"][0]["expression"])


def test_the_webhook_has_no_configuration_without_variables(tmp_path: Path) -> None:
    assert config_map(render(tmp_path)) == {}


def test_the_webhook_reads_each_variable_for_hamis_pods(tmp_path: Path) -> None:
    objects = render(tmp_path, **CONFIG, fractions_count_alone="share")
    data = config_map(objects)
    assert data["device-config.yaml"] == CONFIG["fractions_device_config"]
    assert data["HAMI_COUNT_ALONE"] == "share"
    assert set(data) - {"device-config.yaml"} == environment(objects)
    assert '"nvidia.com/gpu"' in conditions(objects)
    assert "startsWith" not in conditions(objects)


def test_a_choice_needs_no_text_of_hamis(tmp_path: Path) -> None:
    assert config_map(render(tmp_path, fractions_count_alone="share")) == {
        "HAMI_COUNT_ALONE": "share"
    }
