# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fetch an archive of evidence under a name of the controller's, within bounds, and compare its digest."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import tempfile
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.hashing import secure_hash
from ansible_collections.gpu.node.plugins.plugin_utils.controller.declared import hostname

# Fields of an archive's name.
UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
STAGE = re.compile(r"[a-z]{1,20}")
DIGEST = re.compile(r"[0-9a-f]{64}")
MADE = "%Y%m%dT%H%M%SZ"
# The archive of one GPU has at most a kernel log and a bug report of 64 MiB each, compressed, and small answers.
MOST_BYTES = 256 << 20
STEP = "see what the node's gpu.node.gpu_evidence answers, and fetch the archive by hand if you trust the node"


class ActionModule(ActionBase):
    """Runs ansible.builtin.fetch into a new file, and keeps that if it has the digest."""

    TRANSFERS_FILES = True
    _supports_check_mode = False
    _VALID_ARGS = frozenset(("path", "sha256", "size", "folder", "gpu", "stage"))

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        options = {name: {"type": "str", "required": True} for name in self._VALID_ARGS}
        options["size"]["type"] = "int"
        _validation, args = self.validate_argument_spec(argument_spec=options)
        self._check(args, task_vars)
        name = f"{args['gpu']}.{args['stage']}.{time.strftime(MADE, time.gmtime())}.tar.gz"
        dest = os.path.join(args["folder"], name)
        os.makedirs(args["folder"], mode=0o700, exist_ok=True)
        os.chmod(args["folder"], 0o700)
        with tempfile.TemporaryDirectory(dir=args["folder"], prefix=".fetching-") as folder:
            fetched = os.path.join(folder, "archive")
            self._fetch(args["path"], fetched, task_vars)
            digest = secure_hash(fetched, hashlib.sha256)
            if digest != args["sha256"]:
                raise self._refusal(
                    task_vars, f"the file has the SHA-256 {digest}, not the one that was answered"
                )
            os.chmod(fetched, 0o600)
            os.rename(fetched, dest)
        return {"changed": True, "dest": dest}

    def _check(self, args: t.Mapping[str, t.Any], task_vars: t.Any) -> None:
        """Refuse what a node has answered before it becomes part of a path or is transferred."""
        patterns = {"gpu": UUID, "stage": STAGE, "sha256": DIGEST}
        wrong = [name for name, pattern in patterns.items() if not pattern.fullmatch(args[name])]
        if wrong:
            raise self._refusal(task_vars, f"{wrong[0]}: {args[wrong[0]][:100]!r} is not valid")
        if not 0 < args["size"] <= MOST_BYTES:
            raise self._refusal(
                task_vars, f"size: {args['size']} is not valid: expected at most {MOST_BYTES} bytes"
            )

    def _fetch(self, path: str, dest: str, task_vars: t.Any) -> None:
        """Fetch a file. Whatever the connection runs to do so may write no larger one."""
        task = self._task.copy()
        task.args = {"src": path, "dest": dest, "flat": True, "fail_on_missing": True}
        fetch = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.fetch",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        try:
            result = fetch.run(task_vars=task_vars)
        except AnsibleConnectionFailure:
            raise
        except (AnsibleError, OSError) as error:
            raise self._refusal(task_vars, f"it can't be fetched: {error}") from error
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if result.get("failed") or not os.path.isfile(dest):
            reason = str(result.get("msg") or "the node did not send it")[:300]
            raise self._refusal(task_vars, f"it can't be fetched: {reason}")

    def _refusal(self, task_vars: t.Any, reason: str) -> AnsibleActionFail:
        return AnsibleActionFail(f"evidence of {hostname(task_vars)}: {reason}. Next step: {STEP}")
