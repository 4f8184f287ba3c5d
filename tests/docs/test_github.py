# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What GitHub shows and runs names what there is: targets of make, modules, labels' places and pages."""

from __future__ import annotations

import re

import yaml

from tests.support.paths import REPOSITORY

GITHUB = REPOSITORY / ".github"
FORMS = [one for one in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if one.name != "config.yml"]


def test_workflows_run_targets_that_there_are_and_no_steps_of_their_own() -> None:
    targets = set(
        re.findall(r"^([a-z-]+)(?=[ :a-z-]*:)", (REPOSITORY / "Makefile").read_text(), re.M)
    )
    ran = []
    for path in (GITHUB / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            ran += [step["run"] for step in job["steps"] if "run" in step]
    assert {"make test-fast", "make build"} < set(ran)
    assert [one for one in ran if one.split()[0] != "make" or one.split()[1] not in targets] == []


def test_issue_forms_ask_for_what_modules_print() -> None:
    text = "".join(one.read_text() for one in FORMS)
    named = set(re.findall(r"gpu\.node\.(\w+)", text)) - {"gpu"}
    there = {one.stem for one in (REPOSITORY / "plugins/modules").glob("*.py")}
    assert {"gpu_info", "validate"} <= named <= there
    for one in FORMS:
        form = yaml.safe_load(one.read_text())
        assert form.keys() == {"name", "description", "labels", "body"}
        assert {field["type"] for field in form["body"]} <= {"checkboxes", "input", "textarea"}
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))


def test_pages_that_github_looks_for_lead_to_pages_that_there_are() -> None:
    address = "https://github.com/gpu-node/gpu.node/blob/main/"
    texts = [path.read_text() for path in GITHUB.rglob("*.yml")]
    texts += [(REPOSITORY / name).read_text() for name in ("docs/docsite/links.yml", "galaxy.yml")]
    pages = set(re.findall(re.escape(address) + r"([\w./-]+)", "".join(texts)))
    assert {"docs/index.md", "docs/troubleshooting.md"} <= pages
    assert {one for one in pages if not (REPOSITORY / one).is_file()} == set()
