# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CRI-O on a node: how its files are read, tried and understood."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from ..._base.errors import NodeError
from ..._base.visible_devices import TOOLKIT_CONFIG
from .. import crio
from ..edits import Change, lookup
from ..state import CDI, CRIO, View, Wanted, about_default, has_cdi
from . import toml
from .engine import Runtime, Texts

TRIAL = "/run/gpu-node/crio-trial"


class Crio(Runtime):
    """CRI-O, which reads and merges a folder of drop-in files."""

    kind = CRIO

    def view(self, path: str, wanted: Wanted) -> View:
        version = self._version()
        has_cdi(self.kind, version, wanted)
        own = lookup(self.parse(self._host.read(path) or "", path), self.kind.prefix) or {}
        shown = self._shown([])
        needed: t.Tuple[Change, ...] = ()
        if wanted.mode:
            # What would be the default runtime, and what it would have, without us.
            base = self._tried(path, {path: None}) if own and wanted.mode != CDI else shown
            handler = crio.handler(base, wanted)
            needed = tuple(self.kind.settings(shown, wanted, True, handler))
        return View(
            version,
            path,
            prefix=self.kind.prefix,
            effective=crio.known(shown, own, wanted, needed),
            settings=needed,
            warnings=(
                *about_default(lookup(shown, self.kind.default), wanted),
                *self._about(wanted),
            ),
            loaded=tuple(self._files(posixpath.dirname(path))),
        )

    def reads(self, view: View, path: str) -> t.Tuple[str, ...]:
        folder, _ending = posixpath.splitext(posixpath.dirname(path))
        return (folder, *view.loaded)

    def _about(self, wanted: Wanted) -> t.Tuple[str, ...]:
        """Warn where NVIDIA's runtime would find no runtime of its own: upstream's packages have them outside PATH."""
        if wanted.mode in ("", CDI):
            return ()
        text = self._host.read(TOOLKIT_CONFIG) or ""
        names = crio.low_level(toml.parse(text, TOOLKIT_CONFIG))
        if any(self._host.which(one) for one in names):
            return ()
        return (
            f"{wanted.runtime_path} looks for {' or '.join(names)}, and the node has none of them in "
            f"PATH. Next step: name CRI-O's own in 'runtimes' of [nvidia-container-runtime] in {TOOLKIT_CONFIG}",
        )

    def _shown(self, words: t.Sequence[str]) -> t.Mapping[str, t.Any]:
        shown = self._host.run([self.kind.program, *words, "config"]).out
        return crio.section(toml.parse(shown, "crio config"))

    def _files(self, folder: str) -> t.Iterator[str]:
        """Yield all files below a folder, in CRI-O's order."""
        for name in self._host.listdir(folder):
            path = f"{folder}/{name}"
            status = self._host.status(path)
            link = self._host.readlink(path) is not None
            if status is not None and stat.S_ISDIR(status.mode) and not link:
                yield from self._files(path)
            else:
                yield path

    def _tried(self, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        """Return what CRI-O makes of its folder with other texts in some files: it reads all, whatever their names."""
        folder = posixpath.dirname(path)
        files = {one: self._host.read(one) for one in self._files(folder)}
        files.update(texts)
        tried = {one: f"{TRIAL}{one[len(folder) :]}" for one in texts}
        there = {
            f"{TRIAL}{one[len(folder) :]}": text for one, text in files.items() if text is not None
        }
        with self._trial(TRIAL, there, tried):
            self._host.makedirs(TRIAL)
            return self._shown(["--config-dir", TRIAL])

    def trial(self, view: View, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        shown = self._tried(path, texts)
        for at, _value in view.settings:
            if at[:1] == ("runtimes",) and at[-1] == self.kind.handler:
                self._check_monitor(shown, at[1])
        return shown

    def setting_file(self, view: View, lacking: t.Sequence[Change]) -> str:
        for one in reversed(view.loaded):
            config = toml.parse(self._host.read(one) or "", one)
            paths = [(*self.kind.prefix, *path) for path, _value in lacking]
            # An entry is replaced as a whole.
            keys = [path[:-1] if path[2] == "runtimes" else path for path in paths]
            if one != view.file and any(lookup(config, key) is not None for key in keys):
                return one
        return ""

    def _check_monitor(self, shown: t.Mapping[str, t.Any], handler: str) -> None:
        monitor = crio.monitor(shown, handler)
        if not monitor or self._host.which(monitor) is not None:
            return
        base, _entry = crio.like(shown, handler)
        named = monitor != crio.MONITOR
        raise NodeError(
            f"cri-o would not start with the handler {handler}",
            cause=f"its monitor {monitor} is not there"
            if named
            else f"PATH has no {monitor}, and the runtime {base or 'that is the default'} has no monitor_path",
            hint=f"install {monitor}"
            if named
            else f"set monitor_path in [crio.runtime.runtimes.{base or 'crun'}] to where conmon is",
        )
