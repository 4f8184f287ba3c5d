# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each of the questions that a newcomer could not answer has its answer, or a link to it that leads there."""

from __future__ import annotations

import re

from tests.docs.tables import pages

PAGES = [pages.ROOT / f"docs/{one}questions.md" for one in ("", "reference/")]
ANSWERS = {
    int(number): (page, text)
    for page in PAGES
    for number, text in re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", page.read_text(), re.M | re.S)
}
# Words that an answer can't do without.
WORDS = {
    1: "order.md", 2: "kubectl", 3: "--limit", 4: "proxy", 5: "--force", 6: "upgrade_driver", 7: "boot",
    8: "gpu.deploy.operands", 9: "go on", 10: "9402", 11: "SELinux", 12: "security.md", 13: "MiB",
    14: "variables.md", 15: "roles.md", 16: "slurm_node", 17: "dkms status", 18: "time-slicing",
    19: "troubleshooting.md", 20: "device-filter", 21: "SECURITY.md", 22: "gpu.node.validate",
}  # fmt: skip


def test_all_questions_are_there() -> None:
    assert list(ANSWERS) == list(range(1, 23))


def test_each_question_has_an_answer_that_leads_on() -> None:
    assert [number for number, (_page, text) in ANSWERS.items() if not pages.links(text)] == []
    assert [one for page, text in ANSWERS.values() for one in pages.dead(page, text)] == []
    told = {number: text.partition("\n")[2] for number, (_page, text) in ANSWERS.items()}
    assert [number for number, word in WORDS.items() if word not in told[number]] == []


def test_the_index_knows_each_page() -> None:
    text = (pages.ROOT / "docs/index.md").read_text()
    there = {
        pages.name(one)
        for one in (pages.ROOT / "docs").rglob("*.md")
        if "evidence" not in one.parts and one.name != "index.md"
    }
    found = {
        str((pages.ROOT / "docs" / one.partition("#")[0]).resolve()) for one in pages.links(text)
    }
    assert {one for one in there if str(pages.ROOT / one) not in found} == set()
