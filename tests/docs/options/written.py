# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files that are written from the tables of options: ``make options``."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.docs.options import pages, tables
from tests.docs.options.tables import Table
from tests.docs.options.text import CODE_WIDTH, WIDTH, block, code
from tests.support.paths import REPOSITORY

LICENSE = "# Copyright (c) 2026, the gpu.node authors\n# SPDX-License-Identifier: Apache-2.0\n"
# Ansible takes documentation under its own licence.
PLUGIN_LICENSE = """\
# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
GENERATED = REPOSITORY / "plugins/module_utils/_generated"
FRAGMENTS = REPOSITORY / "plugins/doc_fragments"
ROLES = REPOSITORY / "roles"
MARK = "written by make options"
FOREIGN = " # noqa: var-naming[no-role-prefix]"


def files() -> dict[Path, str]:
    """Return each file by its path, as it has to be."""
    found = {GENERATED / "variables.py": _variables()}
    for table in tables.tables():
        for module in table.modules:
            found[GENERATED / f"{module}.py"] = _spec(table, module)
            found[FRAGMENTS / f"{table.name}.py"] = _fragment(table)
        if table.entries:
            role = ROLES / table.name
            found[role / "meta/argument_specs.yml"] = _argument_specs(table)
            found[role / "defaults/main.yml"] = _defaults(table)
            found[role / "meta/main.yml"] = (
                f"{LICENSE}# {_says(table)}\n---\n{block(pages.metadata(table))}"
            )
            found[role / "README.md"] = pages.page(table)
        found.update(_calls(table))
    return found


def write() -> None:
    """Write what is not as it has to be."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _says(table: Table) -> str:
    return f"{MARK} from options/{table.name}.yml"


def _spec(table: Table, module: str) -> str:
    text = f'{LICENSE}\n"""What Ansible checks of options, {_says(table)}."""\n\n'
    text += "from __future__ import annotations\n\nimport typing as t\n\n"
    head, every = "SPEC: t.Dict[str, t.Any] = ", _checked(table, module)
    part = _part_of(table, module)
    if part:
        text += f"from .{part} import SPEC as {part.upper()}\n\n"
        every = {name: one for name, one in every.items() if name not in table.modules[part]}
    shown = code({"argument_spec": every}, 0, len(head))
    if part:
        first = '"argument_spec": {\n'
        shown = shown.replace(first, f'{first}        **{part.upper()}["argument_spec"],\n', 1)
    return f"{text}{head}{shown}\n"


def _checked(table: Table, module: str) -> dict[str, tables.Option]:
    return {name: tables.checked(one) for name, one in table.modules[module].items()}


def _part_of(table: Table, module: str) -> str:
    """Return the module whose options, several, are all among those of this one; empty if there is none."""
    for other, options in table.modules.items():
        every, some = _checked(table, module), _checked(table, other)
        if other != module and len(options) > 1 and {**every, **some} == every:
            return other
    return ""


def _variables() -> str:
    variables: dict[str, dict[str, str]] = {}
    omitted: dict[str, list[str]] = {}
    defaults = {}
    rows = [(module, table) for table in tables.tables() for module in table.modules]
    for module, table in rows:
        for path, option in tables.walk(table, module):
            role, variable = option.get("role"), tables.named(module, path, option)
            if variable:
                leaf = path.rpartition(".")[2]
                prefix = variable.removesuffix(leaf)
                name = prefix if prefix != variable and prefix.endswith("_") else variable
                known = variables.setdefault(module, {})
                known[name] = f"{known[name]} {path}" if name in known else path
            if option.get("omit"):
                omitted.setdefault(module, []).append(path)
            if isinstance(role, dict) and "default" in role:
                defaults[variable] = role["default"]
    text = (
        f'{LICENSE}\n"""What roles call the options of their modules, {MARK} from options/."""\n\n'
    )
    text += "from __future__ import annotations\n\nimport typing as t\n\n"
    text += _named(variables)
    for comment, head, value in (
        (
            "The options that roles leave out where their variable is empty.",
            "OMITTED: t.Mapping[str, t.Sequence[str]] = ",
            omitted,
        ),
        (
            "By variable, the default of the role where its module has another.",
            "DEFAULTS: t.Mapping[str, t.Any] = ",
            defaults,
        ),
    ):
        text += f"# {comment}\n{head}{code(value, 0, len(head))}\n"
    return text + VARIABLES


VARIABLES = """\
VARIABLES: t.Mapping[str, t.Mapping[str, str]] = {
    module: {
        option: f"{name}{option.rpartition('.')[2]}" if name.endswith("_") else name
        for name, options in named.items()
        for option in options.split()
    }
    for module, named in NAMED.items()
}
"""


def _named(variables: Mapping[str, Mapping[str, str]]) -> str:
    lines = [
        "# By module, the options that its role gives, under what their variables begin with, or a whole variable;",
        "# whole.part is an option of an option.",
        "NAMED: t.Mapping[str, t.Mapping[str, str]] = {",
    ]
    for module, names in variables.items():
        row = f"    {json.dumps(module)}: {json.dumps(names)},"
        if len(row) <= CODE_WIDTH:
            lines.append(row)
            continue
        lines.append(f"    {json.dumps(module)}: {{")
        for name, options in names.items():
            head, indent = f'"{name}": ', " " * 8
            pieces = textwrap.wrap(options, WIDTH - len(indent + head) - 4)
            shown = f' "\n{indent}"'.join(pieces)
            lines.append(f'{indent}{head}"{shown}",')
        lines.append("    },")
    return "\n".join([*lines, "}\n"])


def _fragment(table: Table) -> str:
    text = f'{PLUGIN_LICENSE}\n"""Documentation of options, {_says(table)}."""\n\n'
    text += "from __future__ import annotations\n\n\nclass ModuleDocFragment:\n"
    text += f'    """Documentation of options, {_says(table)}."""\n'
    for module, options in table.modules.items():
        shown = block({"options": {name: tables.shown(one) for name, one in options.items()}})
        name = "DOCUMENTATION" if module == table.name else module.upper()
        text += f'\n    {name} = r"""\n{shown}"""\n'
    return text


def _argument_specs(table: Table) -> str:
    known = tables.variables(table)
    entries = {}
    for name, entry in table.entries.items():
        found = {one: _given(known[one]) for one in entry.get("options", [*known])}
        entries[name] = {**entry, "options": found}
    return f"{LICENSE}# {_says(table)}\n---\n{block({'argument_specs': entries})}"


def _given(variable: tables.Option) -> tables.Option:
    found = {key: variable[key] for key in tables.GIVEN if key in variable}
    if "{{" in str(found.get("default")):
        del found["default"]
    return found


def _defaults(table: Table) -> str:
    text = f"{LICENSE}# {_says(table)}\n---\n"
    for name, one in tables.variables(table).items():
        if "default" in one and one.get("defined", True):
            foreign = "" if name.startswith(f"{table.name}_") else FOREIGN
            first, _end, rest = block({name: one["default"]}).partition("\n")
            text += f"{first}{foreign}\n{rest}"
    return text


def _calls(table: Table) -> dict[Path, str]:
    """Return the files whose tasks call a module, as they have to be."""
    found: dict[Path, str] = {}
    for name, asked in table.calls.items():
        module = asked.get("module", table.name)
        path = ROLES / table.name / asked.get("file", f"tasks/{name}.yml")
        text = found.get(path) or path.read_text()
        pattern = re.compile(rf"(?m)^  gpu\.node\.{module}:.*\n(?:    .*\n)*")
        call = pattern.search(text, text.index(f"- name: {asked.get('task', '')}"))
        if not call:
            raise LookupError(f"{path}: no task calls gpu.node.{module}")
        args = block(tables.call(table, module, asked), 4)
        head = f"  gpu.node.{module}: # {_says(table)}\n"
        found[path] = f"{text[: call.start()]}{head}{args}{text[call.end() :]}"
    return found


if __name__ == "__main__":
    write()
