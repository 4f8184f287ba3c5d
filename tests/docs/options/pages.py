# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page and the metadata of each role, as Galaxy shows them: what it does, a play, its variables."""

from __future__ import annotations

import re

from tests.docs.options import tables
from tests.docs.options.tables import Table
from tests.docs.tables import variables
from tests.support.paths import REPOSITORY

PLAYS = [REPOSITORY / f"docs/reference/{one}.md" for one in ("roles", "other-roles")]
AUTHORS = "the gpu.node authors"
OLDEST_CORE = "2.19"


def page(table: Table) -> str:
    """Return a role's README.md."""
    main = next(iter(table.entries.values()))
    said = [sentence.strip() for sentence in main["description"]]
    lines = [f"# gpu.node.{table.name}", ""]
    if "main" in table.entries:
        lines += [f"{main['short_description']}.", "", variables.words({"description": said}), ""]
    else:
        lines += [
            "Tasks that the playbooks and the other roles share. No play names this role.",
            "",
        ]
    if play := _play(table.name):
        lines += ["## Example", "", play, ""]
    lines += ["## Variables", "", "| Variable | Type | Default | |", "| --- | --- | --- | --- |"]
    lines += variables.rows(table.name)
    if explained := variables.PAGES.get(table.name):
        lines += ["", f"[docs/{explained}](../../docs/{explained}) explains them."]
    return "\n".join([*lines, ""])


def metadata(table: Table) -> tables.Option:
    """Return a role's meta/main.yml."""
    main = table.entries.get("main")
    says = main["short_description"] if main else "Tasks that the playbooks and other roles share"
    told = {
        "author": AUTHORS,
        "description": says,
        "license": "Apache-2.0",
        "min_ansible_version": OLDEST_CORE,
    }
    return {"galaxy_info": told, "dependencies": []}


def _play(role: str) -> str:
    text = "\n".join(one.read_text() for one in PLAYS)
    found = re.search(rf"^## {role}\n\n(?:(?!```|#).*\n+)*(```yaml\n[\s\S]*?```)", text, re.M)
    return found.group(1) if found else ""
