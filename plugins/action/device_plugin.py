# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.device_plugin: packs the daemon and sends it where it is missing."""

from __future__ import annotations

import os
import tempfile
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.plugin_utils.controller.node_module import (
    NodeModuleAction,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import (
    Files,
    pack,
    package,
)


class ActionModule(NodeModuleAction):
    """Runs the module, and once more with the payload where the first run finds it missing."""

    TRANSFERS_FILES = True
    _supports_check_mode = True
    INTERNAL_KEYS = {
        "payload_needed": {
            "type": "dict",
            "contains": {"python": {"type": "str"}, "machine": {"type": "str"}},
        }
    }

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        try:
            return self._run(dict(self._task.args), task_vars)
        except NodeError as error:
            raise AnsibleActionFail(str(error)) from error

    def _run(self, args: t.Dict[str, t.Any], task_vars: t.Any) -> t.Dict[str, t.Any]:
        if args.get("state", "started") in ("absent", "stopped"):
            return self._module(args, task_vars)
        release = package(args.pop("package", None), args.pop("wheelhouse", None))
        args.update(digest=release.digest, units=release.units)
        answer = self._module({**args, "payload": None}, task_vars)
        needed = answer.pop("payload_needed", None)
        return self._send(release.sent(**needed), args, task_vars) if needed else answer

    def _send(self, files: Files, args: t.Dict[str, t.Any], task_vars: t.Any) -> t.Dict[str, t.Any]:
        self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "payload.tar.gz")
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "payload.tar.gz")
            pack(files, local)
            self._transfer_file(local, remote)
        try:
            return self._module({**args, "payload": remote}, task_vars)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _module(self, args: t.Dict[str, t.Any], task_vars: t.Any) -> t.Dict[str, t.Any]:
        options = {key: value for key, value in args.items() if value is not None}
        return self.run_module(options, task_vars, "gpu.node.device_plugin")
