# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The webhook's objects as HAMi's configuration wants them, and what can't be one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.filter.hami_config import hami_config
from gpu_cluster.hami.cel import expression
from gpu_cluster.hami.settings import Settings, configured, parse

from tests.support.paths import REPOSITORY

Json = dict[str, Any]
FOLDER = REPOSITORY / "files/kubernetes/dra"
RENAMED = "nvidia: {resourceCountName: a.io/n, resourceMemoryName: a.io/mem}\n"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpu-node-webhook-hami"}}


def manifests() -> list[Json]:
    names = ("device-classes", "webhook", "webhook-self-managed")
    return [*(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) for name in names), CONFIG]


def of(kind: str, found: list[Json]) -> Json:
    (one,) = [one for one in found if one["kind"] == kind]
    return one


def condition(found: list[Json]) -> str:
    (hook,) = of("MutatingWebhookConfiguration", found)["webhooks"]
    (one,) = hook["matchConditions"]
    return str(one["expression"])


def test_the_manifest_has_the_conditions_of_hamis_own_names() -> None:
    everything = [one for each in manifests() for one in each.get("items", [each])]
    assert condition(everything) == expression(Settings())
    found = hami_config(manifests(), "")
    assert found["refused"] == ""
    assert condition(found["objects"]) == expression(Settings())


def test_renamed_resources_are_in_the_conditions() -> None:
    given = manifests()
    before = copy.deepcopy(given)
    found = hami_config(given, RENAMED)["objects"]
    assert given == before
    assert condition(found) == expression(parse(RENAMED, "x"))
    assert '"a.io/mem"' in condition(found)
    assert '"nvidia.com/gpumem"' not in condition(found)


def test_the_pods_come_after_what_they_read() -> None:
    kinds = [one["kind"] for one in hami_config(manifests(), RENAMED)["objects"]]
    assert kinds[0] == "DeviceClass"
    assert kinds.index("Namespace") < kinds.index("ServiceAccount")
    assert kinds[-2:] == ["ConfigMap", "Deployment"]


def test_another_configuration_is_another_pod() -> None:
    """The webhook reads it when it starts."""

    def annotations(text: str) -> Json:
        deployment = of("Deployment", hami_config(manifests(), text)["objects"])
        return dict(deployment["spec"]["template"]["metadata"]["annotations"])

    texts = ("", RENAMED, "nvidia: {defaultMem: 1}")
    assert len({str(annotations(text)) for text in texts}) == 3
    assert annotations(RENAMED) == annotations(RENAMED)
    assert len(annotations("")) == 2


def test_another_choice_for_a_count_alone_is_another_pod_and_condition() -> None:
    text = "nvidia: {defaultMem: 5000}"
    whole, shared = (hami_config(manifests(), text, count_alone=one) for one in ("whole", "share"))
    assert whole == {**hami_config(manifests(), text)}
    chosen = configured(parse(text, "x"), count_alone="share")
    assert condition(shared["objects"]) == expression(chosen) != condition(whole["objects"])
    assert of("Deployment", shared["objects"]) != of("Deployment", whole["objects"])
    assert shared["notes"] == []
    assert whole["notes"][0].startswith(
        "defaultMemory is 5000, and a container with nvidia.com/gpu"
    )


def test_what_has_no_effect_is_noted() -> None:
    assert hami_config(manifests(), "")["notes"] == []
    (note,) = hami_config(manifests(), "nvidia: {defaultMemroy: 1}")["notes"]
    assert note.startswith("fractions_device_config: nvidia.defaultMemroy is not known")


REFUSED: tuple[tuple[str, str], ...] = (
    (
        "device-config.yaml",
        "fractions_device_config: 'device-config.yaml' is not valid: expected a mapping with a section nvidia. Next"
        " step: give the file's text: \"{{ lookup('ansible.builtin.file', 'device-config.yaml') }}\"",
    ),
    ("scheduler:\n  x: 1\n", "is not valid: expected a mapping with a section nvidia. Next step: "),
    ("nvidia: [\n", "fractions_device_config: not valid YAML: "),
    (
        "nvidia:\n  defaultMemory: -1\n",
        "fractions_device_config: nvidia.defaultMemory: -1 is not valid: expected a whole number from 0 to 2147483647."
        " Next step: correct it in HAMi's file, or leave the key out",
    ),
)


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_what_the_webhook_would_not_read_is_refused_by_the_variable(text: str, told: str) -> None:
    found = hami_config(manifests(), text)
    assert told in found["refused"]
    assert found["refused"].startswith("fractions_device_config: ")
