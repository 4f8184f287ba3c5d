# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What people are given to watch a node with: the page, the dashboard and the alerts."""

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
PAGE = (REPOSITORY / "docs/observability.md").read_text()


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
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| `gpu_plugin_")]
    shown = {row[1].strip(" `"): tuple(re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert shown == declared()


def test_the_page_has_all_alerts() -> None:
    section = PAGE.partition("## Dashboard and alerts")[2].partition("\n## ")[0]
    assert re.findall(r"`(Gpu\w+)`", section) == [one["alert"] for one in RULES]


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


def test_the_jobs_on_the_page_are_some_that_prometheus_takes(tmp_path: Path) -> None:
    whole, *more = [yaml.safe_load(one) for one in pages.blocks(PAGE, "yaml") if "job_name" in one]
    whole["scrape_configs"] += [job for jobs in more for job in jobs]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(whole))
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    words = [genuine.promtool(), "check", "config", "prometheus.yml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = {one["job_name"] for one in whole["scrape_configs"]}
    asked = re.findall(r'job="([^"]+)"', (FOLDER / "alerts.yml").read_text())
    assert set(asked) <= jobs
    assert len(jobs) == 3


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
