# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.device_plugin: packs the daemon and sends it where it is missing."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpu.node.plugins.module_utils._core.agent.wheels import parse, refusal

UNITS = ("gpu-device-plugin.service", "gpu-node-labels.service", "gpu-mps@.service")
SKIPPED = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build")
DIGEST_LENGTH = 12
REFUSALS_SHOWN = 5
Files = t.Dict[str, str]


def collect(root: str, prefix: str) -> Files:
    """Return the files below a folder by the name that they get in the archive."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            one for one in folders if one not in SKIPPED and not one.endswith(".egg-info")
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            found[f"{prefix}/{os.path.relpath(path, root)}"] = path
    return found


def digest(path: str) -> str:
    """Return a file's SHA-256."""
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def fingerprint(files: Files, release: str) -> str:
    """Return a short digest of names and contents, and of the unit's release line."""
    total = hashlib.sha256(release.encode())
    for name in sorted(files):
        total.update(name.encode() + b"\0" + bytes.fromhex(digest(files[name])))
    return total.hexdigest()[:DIGEST_LENGTH]


def pack(files: Files, path: str) -> None:
    """Write a tar archive that depends on names and contents alone; links become what they point to."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(files):
                with open(files[name], "rb") as stream:
                    data = stream.read()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))


def wheels_of(wheelhouse: str, requirements: str) -> Files:
    """Return the wheels of a folder, or refuse it where one of its files is not what the daemon's list has."""
    with open(requirements, encoding="utf-8") as stream:
        listed = parse(stream.read())
    files = collect(wheelhouse, "wheels")
    found = [refusal(listed, os.path.basename(path), digest(path)) for path in files.values()]
    refused = [one for one in found if one]
    wheels = {name: path for name, path in files.items() if name.endswith(".whl")}
    words = "; ".join(refused[:REFUSALS_SHOWN])
    if len(refused) > REFUSALS_SHOWN:
        words += f"; and {len(refused) - REFUSALS_SHOWN} more"
    words = words or ("" if wheels else "expected a folder with wheels")
    if words:
        raise AnsibleActionFail(
            f"wheelhouse: {wheelhouse!r} is not valid: {words}. Next step: recreate the folder with 'pip download"
            f" --require-hashes --only-binary=:all: --no-deps --dest {wheelhouse} --requirement {requirements}'"
        )
    return wheels


class ActionModule(ActionBase):
    """Runs the module, and once more with the payload where the first run finds it missing."""

    TRANSFERS_FILES = True
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        if args.get("state", "started") in ("absent", "stopped"):
            return self._module(args, task_vars)
        files, units = self._payload(args)
        release = fingerprint(files, "1")
        units = {name: text.replace("@RELEASE@", release) for name, text in units.items()}
        args.update(digest=release, units=units)
        for name in ("package", "wheelhouse"):
            args.pop(name, None)
        answer = self._module({**args, "payload": None}, task_vars)
        if not answer.pop("payload_needed", False):
            return answer
        return self._send(files, args, task_vars)

    def _payload(self, args: t.Mapping[str, t.Any]) -> t.Tuple[Files, t.Dict[str, str]]:
        package = args.get("package")
        needed = ("pyproject.toml", "requirements.txt")
        if not package or not all(os.path.isfile(os.path.join(package, one)) for one in needed):
            raise AnsibleActionFail(
                f"package: {package!r} is not valid: expected the daemon's source tree"
            )
        files = collect(package, "package")
        if args.get("wheelhouse"):
            files.update(wheels_of(args["wheelhouse"], os.path.join(package, "requirements.txt")))
        units = {}
        for name in UNITS:
            with open(os.path.join(package, "systemd", name), encoding="utf-8") as stream:
                units[name] = stream.read()
        return files, units

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
        answer: t.Dict[str, t.Any] = self._execute_module(
            module_name="gpu.node.device_plugin",
            module_args={key: value for key, value in args.items() if value is not None},
            task_vars=task_vars,
        )
        return answer
