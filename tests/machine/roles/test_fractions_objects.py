# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The objects that the role fractions makes of its variables for HAMi's pods."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.examples import rendering
from tests.support.paths import REPOSITORY
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
    given = {"fractions_count_alone": "share", "fractions_hami_schedulers": ["4pd-scheduler"]}
    objects = render(tmp_path, **CONFIG, **given)
    data = config_map(objects)
    assert data["device-config.yaml"] == CONFIG["fractions_device_config"]
    assert (data["HAMI_COUNT_ALONE"], data["HAMI_SCHEDULER"]) == ("share", "4pd-scheduler")
    assert set(data) - {"device-config.yaml"} == environment(objects)
    assert '"nvidia.com/gpu"' in conditions(objects)
    assert "startsWith" not in conditions(objects)


def test_a_choice_needs_no_text_of_hamis(tmp_path: Path) -> None:
    assert config_map(render(tmp_path, fractions_count_alone="share")) == {
        "HAMI_COUNT_ALONE": "share"
    }


def test_pods_of_each_named_scheduler_come_to_the_webhook(tmp_path: Path) -> None:
    names = ["hami-scheduler", "4pd-scheduler"]
    objects = render(tmp_path, fractions_hami_schedulers=names)
    assert config_map(objects) == {"HAMI_SCHEDULER": "hami-scheduler,4pd-scheduler"}
    assert "HAMI_SCHEDULER" in environment(objects)
    assert conditions(objects).endswith('schedulerName in ["hami-scheduler", "4pd-scheduler"])')


@pytest.mark.parametrize("names", [[], ["default-scheduler"], ["4pd scheduler"]], ids=str)
def test_a_scheduler_that_can_not_be_is_refused_by_the_variable(
    tmp_path: Path, names: list[str]
) -> None:
    variables = {**IMAGE, "fractions_hami_schedulers": names}
    (answer,) = rendering.render([variables], defaults(), tmp_path)
    assert answer["error"].startswith("fractions_hami_schedulers: ")
    assert "is not valid: expected names of schedulers" in answer["error"]


def say(folder: Path, *, changed: bool, **variables: Any) -> str:
    """Run the role's last task, after a run that has changed something or has not, and return what it prints."""
    role = REPOSITORY / "roles/fractions"
    given = {
        **yaml.safe_load((role / "vars/main.yml").read_text()),
        "__pinned": {"options": {**defaults(), **IMAGE, **variables}},
        "__fractions_folder": str(REPOSITORY / "files/kubernetes/dra"),
        "__fractions_result": {"changed": changed},
    }
    task = yaml.safe_load((role / "tasks/main.yml").read_text())[-1]
    play = {"hosts": "localhost", "gather_facts": False, "vars": given, "tasks": [task]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    command = ["ansible-playbook", "--inventory", "localhost,", "play.yml"]
    completed = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


@pytest.mark.parametrize(
    ("changed", "choice", "named"),
    [(True, "whole", True), (False, "whole", False), (True, "share", False)],
)
def test_a_run_that_changes_something_names_a_default_memory_that_pods_do_not_get(
    tmp_path: Path, *, changed: bool, choice: str, named: bool
) -> None:
    output = say(tmp_path, changed=changed, **CONFIG, fractions_count_alone=choice)
    assert ("defaultMemory is 5000" in output) == named
    assert ("skipping" in output) != named
