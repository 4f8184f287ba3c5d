# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What people are given to watch a node with: the pages, the dashboard and the alerts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.exporter import FIELDS
from gpu_plugin.dra.report import Families as DraFamilies
from gpu_plugin.observer import Observer
from gpu_plugin.report.pages import Families
from nvsim import genuine

from tests.docs.tables import pages
from tests.support.paths import REPOSITORY, TESTS

FOLDER = REPOSITORY / "files/observability"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0][
    "rules"
]
QUERIES = [
    *((one["title"], each["expr"]) for one in DASHBOARD["panels"] for each in one["targets"]),
    *((one["alert"], one["expr"]) for one in RULES),
]
OTHERS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
OTHERS |= {"process_start_time_seconds"}
NODE_EXPORTER = {"node_systemd_unit_state": ("name", "state", "type")}
# What dcgm-exporter 4.8 puts on each metric: internal/pkg/rendermetrics and internal/pkg/transformation of its source.
DCGM = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "hostname")
DCGM += ("pod", "namespace", "container", "vgpu")
# What a query itself makes: the address of a node without the port, by which the two are joined.
MADE = {"node", "UUID"}
DOCS = REPOSITORY / "docs"
WRONG = "\n## What can go wrong\n"  # which names some of them again
PAGE, METRICS, ALERTS, OPERATOR = (
    (DOCS / f"{name}.md").read_text()
    for name in (
        "observability",
        *(f"observability/{one}" for one in ("metrics", "alerts", "operator")),
    )
)


def declared() -> dict[str, tuple[str, ...]]:
    """Each metric's labels by its name."""
    found = [(one, family) for one in Observer().metrics for family in one.collect()]
    found += [(family, family) for family in Families(dict, lambda: ()).collect()]  # type: ignore[misc]
    found += [(family, family) for family in DraFamilies(dict).collect()]  # type: ignore[misc]
    return {
        family.name + ("_total" if family.type == "counter" else ""): tuple(one._labelnames)
        for one, family in found
    }


def test_the_page_has_all_metrics_with_their_labels() -> None:
    lines = METRICS.partition(WRONG)[0].splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| `gpu_plugin_")]
    shown = {row[1].strip(" `"): tuple(re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert shown == declared()


def test_the_page_has_all_alerts() -> None:
    named = re.findall(r"`(Gpu\w+)`", ALERTS.partition(WRONG)[0])
    assert named == [one["alert"] for one in RULES]


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _query in QUERIES])
def test_queries_ask_for_metrics_and_labels_that_exist(title: str, query: str) -> None:
    known = {
        **declared(),
        **NODE_EXPORTER,
        **dict.fromkeys(re.findall(r"^DCGM\w+", FIELDS, re.M), DCGM),
    }
    names = r"gpu_plugin_\w+|DCGM_\w+|process_\w+|node_\w+|up\b"
    asked = re.findall(rf"\b({names})(?:\{{([^}}]*)\}})?", query)
    assert asked, title
    for name, matchers in asked:
        base = _base(name)
        assert base in known or name in OTHERS
        labels = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", matchers))
        assert labels <= {"instance", "job", *known.get(base, ())}
    for labels in re.findall(r"\bby \(([^)]*)\)", query):
        there = {"instance", "le", *(one for name, _m in asked for one in known[_base(name)])}
        assert {one.strip() for one in labels.split(",")} <= there | MADE


def _base(name: str) -> str:
    return re.sub("_(bucket|count|sum)$", "", name)


def test_every_metric_is_on_the_dashboard() -> None:
    text = json.dumps([one["targets"] for one in DASHBOARD["panels"]])
    assert [name for name in declared() if name not in text] == []


def test_the_dashboard_has_grafanas_shape() -> None:
    panels = DASHBOARD["panels"]
    assert DASHBOARD["schemaVersion"] >= 36
    assert (DASHBOARD["title"], DASHBOARD["uid"]) == ("GPU nodes", "gpu-node")
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}
    assert len({one["id"] for one in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for one in panels:
        place = one["gridPos"]
        assert one["type"] in ("stat", "timeseries", "table")
        assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({each["refId"] for each in one["targets"]}) == len(one["targets"])
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _y in cells) < 24
        assert not cells & taken, one["title"]
        taken |= cells


def jobs(page: str) -> dict[str, Any]:
    """Return the jobs that a page's examples have to add or to put in another's place, by their names."""
    found = [yaml.safe_load(one) for one in pages.blocks(page, "yaml")]
    return {job["job_name"]: job for one in found if isinstance(one, list) for job in one}


@pytest.mark.parametrize("instead", [{}, jobs(PAGE), jobs(ALERTS)], ids=["list", "label", "dcgm"])
def test_the_jobs_on_the_pages_are_some_that_prometheus_takes(
    tmp_path: Path, instead: dict[str, Any]
) -> None:
    (text,) = (one for one in pages.blocks(PAGE, "yaml") if "scrape_configs" in one)
    whole = yaml.safe_load(text)
    named = {job["job_name"]: job for job in whole["scrape_configs"]} | instead
    whole["scrape_configs"] = list(named.values())
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(whole))
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    words = [genuine.promtool(), "check", "config", "prometheus.yml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = re.findall(r'job="([^"]+)"', (FOLDER / "alerts.yml").read_text())
    assert set(asked) <= set(named)
    assert len(named) == (3 if "dcgm" in instead else 2)


def test_the_operators_object_finds_the_nodes_by_the_same_label_as_the_job() -> None:
    one = yaml.safe_load(pages.blocks(OPERATOR, "yaml")[0])
    job = jobs(PAGE)["gpu-node"]
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    rules = [{names.get(k, k): v for k, v in rule.items()} for rule in one["spec"]["relabelings"]]
    assert (one["spec"]["jobName"], rules) == (job["job_name"], job["relabel_configs"])


def test_the_rules_become_an_object_of_the_operator_as_the_page_says() -> None:
    (text,) = pages.blocks(OPERATOR, "console")
    command = re.sub(r"^[$>] ", "", text, flags=re.M).partition("\n")[2].rpartition(" | kubectl")[0]
    words = ["sh", "-c", command]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=True)
    made = yaml.safe_load(done.stdout)
    assert made["kind"] == "PrometheusRule"
    assert made["spec"]["groups"][0]["rules"] == RULES


@pytest.mark.parametrize("rule", RULES, ids=[one["alert"] for one in RULES])
def test_each_alert_leads_to_the_page_with_the_next_step(rule: dict[str, Any]) -> None:
    begin = f"{yaml.safe_load((REPOSITORY / 'galaxy.yml').read_text())['repository']}/blob/main/"
    page, _sign, anchor = rule["annotations"]["runbook_url"].removeprefix(begin).partition("#")
    assert page.startswith("docs/")
    text = (REPOSITORY / page).read_text()
    assert not anchor or anchor in pages.anchors(text)


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    promtool = genuine.promtool()
    for path in (FOLDER / "alerts.yml", TESTS / "pure/daemon/report/alerts_test.yml"):
        shutil.copy(path, tmp_path)
    for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = subprocess.run(
            [promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    names = set(re.findall(r"alertname: (\w+)", (tmp_path / "alerts_test.yml").read_text()))
    assert names == {one["alert"] for one in RULES}
