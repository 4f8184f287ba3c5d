# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of docs/variables.md: each variable of the roles and playbooks, from their argument specs and defaults."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.docs.options.tables import Options, variables
from tests.docs.options.tables import tables as capabilities
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
PAGE = ROOT / "docs/variables.md"
MARKS = ("<!-- variables: written by make docs-tables -->", "<!-- variables: end -->")
# Each role with its page, in the order in which the playbook runs them; those of the playbooks are the role common's.
PAGES = {
    "common": "operations/in-service.md",
    "nvidia_driver": "driver.md",
    "container_toolkit": "container-toolkit.md",
    "container_runtime": "container-runtimes.md",
    "mig": "mig.md",
    "settings": "driver/settings.md",
    "host": "operations/host.md",
    "cdi": "cdi.md",
    "device_plugin": "device-plugin.md",
    "dcgm": "dcgm.md",
    "validate": "operations/validation.md",
    "accept": "repair/accept.md",
    "quarantine": "repair/quarantine.md",
    "repair": "repair/repair.md",
    "fractions": "fractions/install.md",
    "report": "operations/report.md",
    "bundle": "operations/air-gap.md",
}
# The role common takes this one from its own playbooks; nobody sets it.
INTERNAL = {"gpu_nodes_failure"}
# Earlier names of a role, without variables.
EARLIER = {"node_labels"}


def roles() -> list[str]:
    """Return the roles with variables, those without a page of their own at the end."""
    there = sorted(one.name for one in (ROOT / "roles").iterdir() if one.name not in EARLIER)
    return [*PAGES, *(one for one in there if one not in PAGES)]


def options(role: str) -> Options:
    """Return the variables of a role that users set."""
    (found,) = (variables(one) for one in capabilities() if one.name == role)
    return {name: one for name, one in found.items() if name not in INTERNAL}


def words(spec: dict[str, Any]) -> str:
    """Return an option's description in one line of Markdown."""
    said = spec["description"]
    text = " ".join(said) if isinstance(said, list) else said
    text = re.sub(r"\b[CVIOMB]\(([^)]*)\)", r"`\1`", text)
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")


def flow(value: Any) -> str:
    """Return a value as YAML has it in one line, or none."""
    if value in (None, ""):
        return "none"
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


def kind(spec: dict[str, Any]) -> str:
    """Return an option's type, with the values that it may have."""
    text = spec.get("type", "str") + (f" of {spec['elements']}" if "elements" in spec else "")
    choices = ", ".join(flow(one) for one in spec.get("choices", []))
    return f"{text}: {choices}" if choices else text


def table(role: str) -> list[str]:
    """Return the table of a role, below its heading."""
    page = PAGES.get(role)
    title = "The playbooks" if role == "common" else f"`gpu.node.{role}`"
    lines = [f"## {title}", "", *([f"Explained in [{page}]({page}).", ""] if page else [])]
    lines += ["| Variable | Type | Default | |", "| --- | --- | --- | --- |"]
    return [*lines, *rows(role), ""]


def rows(role: str) -> list[str]:
    """Return a row for each variable of a role."""
    return [
        f"| `{name}` | {kind(spec)} | {flow(spec.get('default'))} | {words(spec)} |"
        for name, spec in options(role).items()
    ]


def tables() -> str:
    """Return all tables in Markdown."""
    return "\n".join(line for role in roles() if options(role) for line in table(role)).strip()


def shown() -> str:
    """Return the tables that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip()


def write() -> None:
    """Write the tables on the page."""
    head, rest = PAGE.read_text().split(MARKS[0])
    PAGE.write_text(f"{head}{MARKS[0]}\n\n{tables()}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    write()
