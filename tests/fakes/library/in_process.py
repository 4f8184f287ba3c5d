# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Modules that are run in this process, with the arguments that Ansible gives them."""

from __future__ import annotations

import contextlib
import io
import json
import typing as t
from pathlib import Path

import ansible.utils.display  # noqa: F401 (it writes when it is first imported, which is no word of a module)
import pytest
from ansible.module_utils import basic
from ansible_collections.gpu.node.plugins.module_utils._machine import locks


def said_by(
    module: t.Any,
    given: t.Mapping[str, t.Any],
    folder: Path,
    warnings: t.Optional[t.List[str]] = None,
    **options: t.Any,
) -> str:
    """Run a module; return all that it prints. ``options`` are Ansible's own, such as check_mode.

    Warnings are put into a list where one is given.
    """
    options = {"module_name": f"gpu.node.{module.__name__.rpartition('.')[2]}", **options}
    own = {f"_ansible_{name}": value for name, value in options.items()}
    arguments = {**given, "_ansible_remote_tmp": str(folder), "_ansible_diff": True, **own}
    with pytest.MonkeyPatch.context() as patch, io.StringIO() as said:
        patch.setattr(
            basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
        )
        patch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
        patch.setattr(locks, "NODE", str(folder / "node.lock"))
        if warnings is not None:
            patch.setattr(
                basic.AnsibleModule, "warn", lambda _self, text, **_more: warnings.append(text)
            )
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            with pytest.raises(SystemExit):
                module.main()
        return said.getvalue()
