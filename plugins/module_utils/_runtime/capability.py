# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.container_runtime."""

from __future__ import annotations

import posixpath
import typing as t

from .._base import toolkit
from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._base.text.masking import excerpts, masked_text
from .._machine.host import Host
from .._machine.own_files import OwnFiles
from .containerd import DROP_IN, EARLIER_DROP_INS
from .edits import Change, lookup
from .machine import kubelet
from .machine.engine import ALWAYS, NEVER, WHEN_IDLE, Runtime, listed
from .machine.engines import choose, installed
from .machine.observed import RuntimesState, RuntimeState
from .machine.record import RECORD, File, Records, Written
from .machine.restart import activate
from .state import (
    CDI,
    RuntimeOptions,
    RuntimeView,
    Unfit,
    about_default,
    check_options,
    describe,
    version_text,
)

OWN_NAME = posixpath.splitext(DROP_IN)[0]  # of files that nobody else writes
LIVE_RESTORE = (
    ", or set live-restore in daemon.json and reload docker, which then leaves them alone"
)


class RuntimeCapability:
    """Enables GPUs (CDI) in container runtimes, or reverts that."""

    name = "container_runtime"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host = host
        self._present: bool = params["state"] == "present"
        self._runtime: str = params["name"]
        self._config_path: t.Optional[str] = params["config_path"]
        mode = params["mode"] if self._present else ""
        self._options = RuntimeOptions(
            mode, params["handler"], params["handler_path"], tuple(params["spec_dirs"])
        )
        check_options(self._options, self._config_path)
        self._restart: str = params["restart"]
        self._keep: bool = params["backup"]
        self._restart_now: t.Sequence[str] = params["restart_now"]
        self._backup: t.Optional[str] = None
        self._records = Records(host)
        self._states: t.Dict[str, RuntimeState] = {}
        self._texts: t.Dict[str, t.Optional[str]] = {}  # what files become, by path
        # What runtimes have made of these texts on a trial, by name.
        self._tried: t.Dict[str, t.Mapping[str, t.Any]] = {}
        if self._config_path and self._runtime in ("auto", "podman"):
            raise InputError.of("config_path", self._config_path, "one runtime that has a file")

    # --- observe ---

    def observe(self) -> RuntimesState:
        """Read versions, files, effective configurations and services."""
        chosen = choose(self._host, self._runtime)
        warnings = self._check_program(chosen)
        states, refused = [], []
        for runtime in chosen:
            try:
                states.append(self._observe(runtime))
            except (InputError, Unfit) as error:
                refused.append(error)
        if not states:
            raise refused[0]
        warnings += [f"left out: {error}" for error in refused]
        if self._present:
            warnings += kubelet.unknown_runtime(self._host, installed(self._host))
        for runtime_state in states:
            warnings += [*runtime_state.view.warnings, *runtime_state.runtime.moved()]
        self._states = {state.runtime.kind.name: state for state in states}
        return RuntimesState(tuple(states), tuple(warnings))

    def _check_program(self, chosen: t.Sequence[Runtime]) -> t.List[str]:
        """Refuse a wrapper that is missing or that containers can break out of."""
        path = self._options.runtime_path
        has_service = any(runtime.unit for runtime in chosen)
        if not self._present or self._options.mode == CDI or not has_service:
            return []
        if not self._host.exists(path):
            raise NodeError(
                f"{path} is not on the node, and mode {self._options.mode} needs it",
                hint="install the NVIDIA container toolkit, or use mode cdi, which needs no program",
            )
        text = self._host.run([path, "--version"], check=False).out
        if toolkit.number(text) is None:
            return [
                f"whether {path} is safe to use is not known: it did not report its version "
                f"({text.strip() or 'no output'})"
            ]
        if not toolkit.is_safe(text):
            raise NodeError(
                f"{path} has version {toolkit.described(text)}",
                cause=f"before {toolkit.MINIMUM_TEXT} containers could break out through it",
                hint="upgrade the NVIDIA container toolkit (gpu.node.container_toolkit)",
            )
        return []

    def _observe(self, runtime: Runtime) -> RuntimeState:
        path = runtime.chosen_path(self._config_path)
        records = self._records.all()
        view = runtime.view(path, self._known(runtime, path, records))
        changes = view.changes()
        keep = [(*view.prefix, *key) for key, _value in view.settings]
        files = []
        every = not self._present and not self._config_path
        for name, record in records.items():  # other files that may have something of ours in them
            if name == view.file or record.runtime != runtime.kind.name:
                continue
            if not every and name not in view.loaded:
                continue
            moved = posixpath.basename(name) in EARLIER_DROP_INS
            if moved:  # what is set in a file of an earlier release goes to the one of this release
                before = {entry.path for entry in records[name].entries}
                declared = [((*view.prefix, *key), value) for key, value in view.settings]
                moving = [change for change in declared if change[0] in before]
                changes += [change for change in moving if change not in changes]
            files.append(self._planned(runtime, view, name, [], [] if moved else keep))
        files = [self._planned(runtime, view, view.file, changes, keep), *files]
        stale = self._records.stale(runtime.unit)
        stale_live = self._records.stale(runtime.unit, live=True)
        loaded_files = tuple(filter(None, files))
        settled = self._present and not (loaded_files or stale or stale_live)
        running = runtime.running(path) if settled else None
        compares = self._present and not stale and not view.is_in_effect(running)
        state = RuntimeState(
            runtime,
            view,
            path,
            loaded_files,
            stale,
            stale_live,
            changed=self._records.changed(runtime, runtime.reads(view, path) if compares else ()),
            down=runtime.down() if self._present else "",
            missing=tuple(view.lacking_in_effect(running)),
        )
        asks = state.restarts() and self._restart == WHEN_IDLE
        return state._replace(ended=runtime.ended(path)) if asks else state

    def _known(
        self, runtime: Runtime, path: str, records: t.Mapping[str, Written]
    ) -> RuntimeOptions:
        """Return the options, with the default runtime that our handler has taken the place of."""
        for entry in records[path].entries if path in records else ():
            default = entry.path[-1:] == runtime.kind.keys.default[-1:]
            if default and entry.value == self._options.handler and entry.had:
                return self._options._replace(instead=str(entry.had[0]))
        return self._options

    def _planned(
        self,
        runtime: Runtime,
        view: RuntimeView,
        name: str,
        changes: t.Sequence[Change],
        keep: t.Container[t.Tuple[str, ...]],
    ) -> t.Optional[File]:
        written = self._records.all().get(name)
        there = File(name, self._host.read(name), view.fresh, written=written)
        return there.planned(runtime, changes, keep)

    # --- plan ---

    def plan(self, state: RuntimesState) -> Plan:
        """Return the plan of the edits; restarts are left to the caller."""
        steps, before, after, restart, warnings = [], [], [], [], [*state.warnings]
        for each in state.states:
            kind, unit = each.runtime.kind, each.runtime.unit
            self._try(each)
            need = "reload" if each.reloads() else "restart"
            for file in each.files:
                params = {"runtime": kind.name, "file": file}
                steps.append(Step("edit", file.summary(), params, (f"{need}:{unit}",)))
                texts = (file.text or "", self._texts[file.path] or "")
                old, new = excerpts(*map(masked_text, texts))
                before.append(old)
                after.append(new)
            steps += self._restart_steps(each)
            if each.restarts() and not self._waits(each):
                restart.append(unit)
            # What it has once its files are written.
            effective = self._tried.get(kind.name, each.view.effective)
            warnings += about_default(lookup(effective, kind.keys.default), self._options)
        warnings += map(self._waiting, self._deferred(state))
        down = {each.runtime.unit: each.down for each in state.states}
        warnings += [text for unit, text in down.items() if text and unit not in restart]
        if not self._present and not steps and self._host.read(RECORD) is not None:
            # Files that have nothing of ours any more.
            names = {each.runtime.kind.name for each in state.states}
            for path, written in self._records.all().items():
                if written.runtime in names:
                    summary = f"remove the saved copy of {path}"
                    steps.append(Step("forget", summary, {"path": path}))
        return Plan(
            tuple(steps),
            "".join(before),
            "".join(after),
            restart_required=tuple(restart),
            blocked_by=tuple(name for each in state.states for name in each.ended),
            warnings=tuple(warnings),
            more=bool(self._restart_now),
        )

    def _restart_steps(self, state: RuntimeState) -> t.List[Step]:
        """Return the steps that note or carry out a restart or reload that no edit of this run needs."""
        name, unit = state.runtime.kind.name, state.runtime.unit
        steps = []
        if state.changed or state.missing:
            verb = "note that {} must be restarted" if self._waits(state) else "restart {}"
            reason = f"{', '.join(state.changed)} was changed after it had started"
            if not state.changed:
                reason = f"it runs without {describe(state.missing)}"
            summary = f"{verb.format(unit)}: {reason}"
            steps.append(Step("stale", summary, {"unit": unit}, (f"restart:{unit}",)))
        if unit not in self._restart_now or state.files or steps:
            return steps
        if state.reloads() or (state.restarts() and not self._waits(state)):
            verb = "restart" if state.restarts() else "reload"
            params = {"runtime": name, "verb": verb}
            steps.append(Step("activate", f"{verb} {unit}", params))
        return steps

    def _waits(self, state: RuntimeState) -> bool:
        """Return whether a restart is left to somebody else, or to a later run."""
        return self._restart == NEVER or bool(state.ended)

    def _deferred(self, state: RuntimesState) -> t.List[RuntimeState]:
        return [each for each in state.states if each.restarts() and self._waits(each)]

    def _waiting(self, state: RuntimeState) -> str:
        unit = state.runtime.unit
        if not state.ended:
            return (
                f"{unit} must be restarted before its settings take effect. Next step: restart it"
            )
        return (
            f"{unit} must be restarted before its settings take effect, and that would end "
            f"{listed(state.ended)}. Next step: run again once they have ended, or with restart=always"
            f"{LIVE_RESTORE if state.runtime.kind.name == 'docker' else ''}"
        )

    def _try(self, state: RuntimeState) -> None:
        """Have a runtime check all of its edits, and refuse edits that do not give it the settings."""
        if self._present:
            changes = [change for file in state.files for change in file.changes]
            state.runtime.refuse_flags(changes, state.path, self._options)
        texts = {file.path: file.edited(state.runtime) for file in state.files}
        self._texts.update(texts)
        if not texts and self._present and state.runtime.unit not in self._restart_now:
            state.runtime.check_next_start(state.view, state.path)
        if texts:
            effective = state.runtime.trial(state.view, state.path, texts)
            self._check(state, state.view.lacking(effective), "would still not have")
            self._tried[state.runtime.kind.name] = effective
            if self._restart != ALWAYS:
                state.runtime.check_running(state.view, effective)

    def _check(self, state: RuntimeState, lacking: t.Sequence[Change], verb: str) -> None:
        if lacking:
            runtime, view = state.runtime, state.view
            other = runtime.setting_file(view, lacking)
            message = f"{runtime.kind.name} {verb} {describe(lacking)}"
            cause = f"{other or 'a file'} sets it otherwise, and is read later than {view.file}"
            hint = "change or remove the setting there; nothing was changed"
            raise NodeError(message, cause=cause, hint=hint)

    def own(self, state: RuntimesState) -> OwnFiles:
        """Return the files that only root may write."""
        files = (runtime_state.view.file for runtime_state in state.states)
        proof = tuple(file for file in files if posixpath.splitext(file)[0].endswith(OWN_NAME))
        modes = {RECORD: 0o600} if self._present else {}
        return OwnFiles(self._host, modes, record=RECORD, proof=proof)

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out a step; an edit is undone if its runtime does not take it as on the trial."""
        if step.action == "forget":
            self._records.put(step.params["path"], None)
            return
        if step.action == "stale":
            self._records.mark(step.params["unit"])
            return
        state = self._states[step.params["runtime"]]
        if step.action == "activate":
            verb = step.params["verb"]
            activate(
                self._host, self._records, state.runtime, state.view, state.path, verb, self._put
            )
            return
        file: File = step.params["file"]
        saved = self._records.saved()
        try:
            self._write(state, file)
            self._verify(state, is_last=file is state.files[-1])
        except NodeError as error:
            self._undo(file, saved, error)
            raise

    def _write(self, state: RuntimeState, file: File) -> None:
        runtime = state.runtime
        text, folder = self._texts[file.path], posixpath.dirname(file.path)
        record = None
        if not (self._records.stale(runtime.unit) or self._records.stale(runtime.unit, live=True)):
            self._records.forget_before(runtime.unit)  # somebody else has restarted it
        self._records.keep_before(runtime.unit, file.path, file.text)
        if text is not None and self._present and not file.restored:
            record = file.record(runtime, text, makes_folder=not self._host.exists(folder))
            self._records.put(file.path, record)
        self._records.mark(runtime.unit, live=state.reloads())
        self._put(file.path, text, backup=self._keep)
        self._records.wrote(file.path)
        if record is None:
            self._records.put(file.path, None)
        was_ours = text is None and file.written is not None and file.written.made_folder
        if was_ours and not self._host.listdir(folder):
            self._host.remove(folder)

    def _put(self, path: str, text: t.Optional[str], *, backup: bool = False) -> None:
        if text is not None:
            self._backup = self._host.write(path, text, backup=backup) or self._backup
            return
        target = self._host.readlink(path)
        folder = posixpath.dirname(path)
        self._host.remove(path if target is None else posixpath.join(folder, target))

    def _undo(self, file: File, saved: t.Mapping[str, t.Optional[str]], error: NodeError) -> None:
        """Restore a file and its record; the error says so if that fails."""
        try:
            if self._host.read(file.path) != file.text:
                self._put(file.path, file.text)
            self._records.restore(saved)
            self._records.wrote(file.path)
        except NodeError as second:
            error.details["changed"] = True
            error.hint = f"restore {file.path}, which is left changed: {second}"

    def _verify(self, state: RuntimeState, *, is_last: bool) -> None:
        """Refuse a runtime whose configuration is not that of the trial once its last file is written."""
        runtime = state.runtime
        view = runtime.view(state.path, self._known(runtime, state.path, self._records.all()))
        stale = state.stale or state.stale_live
        if view.effective == state.view.effective and not stale:
            self._records.unmark(runtime.unit)
            self._records.forget_before(runtime.unit)
        current = state._replace(view=view)
        self._check(current, view.lacking(view.effective), "did not take")
        if is_last:
            left = current.left(self._tried[runtime.kind.name])
            self._check(current, left, "still has")

    # --- report ---

    def result(self, state: RuntimesState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the runtimes; with several of them, the first one where there is room for one."""
        first = state.states[0]
        reloading = [each for each in state.states if each.reloads()]
        return {
            "state": "present" if self._present else "absent",
            "runtime": first.runtime.kind.name,
            "runtime_version": version_text(first.view.version),
            "config_path": first.path,
            "backup_file": self._backup,
            "restart_deferred": [each.runtime.unit for each in self._deferred(state)],
            "reload_required": [each.runtime.unit for each in reloading],
            "runtimes": [
                {
                    "name": each.runtime.kind.name,
                    "version": version_text(each.view.version),
                    "config_path": each.path,
                    "unit": each.runtime.unit,
                }
                for each in state.states
            ],
        }
