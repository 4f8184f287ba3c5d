# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Observe, plan, apply, report: the one shape of every module."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from .._base.errors import NodeError, checked_timeout
from .._base.steps import Plan, Step
from .._base.text.masking import files, logins, masked
from .._base.text.readable import as_yaml
from .._base.variables import about
from . import locks, own_files
from .host import Host
from .own_files import OwnFiles

S = t.TypeVar("S")
UMASK = 0o022


class Capability(t.Protocol[S]):
    """One thing that a module keeps in a wanted state."""

    @property
    def name(self) -> str:
        """Return the capability's name, for error messages."""

    def observe(self) -> S:
        """Read the node; change nothing."""

    def plan(self, state: S) -> Plan:
        """Compute the steps, or raise NodeError when they cannot be carried out."""

    def apply(self, step: Step) -> None:
        """Carry out one step."""

    def result(self, state: S, plan: Plan) -> t.Dict[str, t.Any]:
        """Return what the module reports besides the common values."""


@t.runtime_checkable
class Owner(t.Protocol):
    """A capability that keeps files of its own on the node."""

    def own(self, state: t.Any) -> OwnFiles:
        """Return those that are to be there, by what was observed."""


class Dressed(t.Generic[S]):
    """A capability, and with it that its own files are root's alone."""

    def __init__(self, capability: Capability[S], owner: Owner) -> None:
        self._capability, self._own = capability, owner.own
        self.name, self.result = capability.name, capability.result
        self.observe = capability.observe
        self._files: t.Optional[OwnFiles] = None

    def plan(self, state: S) -> Plan:
        """Compute the steps, and before them the one that gives files back."""
        planned = self._capability.plan(state)
        self._files = self._own(state)
        steps = (*self._files.steps(), *planned.steps)
        self._files.check(steps)
        warnings = (*planned.warnings, *self._files.warnings())
        return dataclasses.replace(planned, steps=steps, warnings=warnings)

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        files = self._files
        if files is None or not files.record:
            self._do(step)
            return
        was_there = files.host.exists(files.record)
        try:
            self._do(step)
        finally:
            files.note(was_there=was_there)

    def _do(self, step: Step) -> None:
        if step.action in own_files.ACTIONS and self._files is not None:
            self._files.apply(step)
        else:
            self._capability.apply(step)


def dressed(capability: Capability[S]) -> Capability[S]:
    """Return a capability whose files of its own, where it has some, are looked after."""
    return Dressed(capability, capability) if isinstance(capability, Owner) else capability


def run_capability(
    module: AnsibleModule, make: t.Callable[[], Capability[t.Any]], *, changes_node: bool = False
) -> t.NoReturn:
    """Bring the node to the desired state, or report what would be done, and exit the module.

    Args:
        module: The module.
        make: Builds the capability from the module's parameters; may raise InputError.
        changes_node: Whether the module changes more of the node than a record of its own. It then holds the node's
            lock from before it observes the node until it ends, except in check mode.
    """
    # The login's umask would else decide who can read what pip and other programs write here.
    os.umask(UMASK)
    completed: t.List[Step] = []
    name = module._name.rpartition(".")[2]
    # Ansible adds to every answer what the module was given.
    module.no_log_values.update(logins(module.params) | files(module.params))
    try:
        capability = dressed(make())
        holds = changes_node and not module.check_mode
        with _node_lock(module) if holds else contextlib.nullcontext():
            answer = masked(_converge(module.check_mode, module._diff, capability, completed))
    except PermissionError as error:
        if os.geteuid() == 0:
            raise
        hint = "set become: true, for a user with sudo"
        module.fail_json(
            msg=f"{name}: {error.filename or error}: this needs root. Next step: {hint}"
        )
    except NodeError as error:
        steps = [step.describe() for step in completed]
        failure = {
            **refusal(name, error),
            "changed": bool(completed),
            "steps": steps,
            **error.details,
        }
        # A program repeats what it was given, and logs keep what a module says.
        module.fail_json(**masked(failure))
    for warning in answer.pop("warnings"):
        module.warn(warning)
    module.exit_json(**answer)
    raise AssertionError("exit_json returned")


@contextlib.contextmanager
def _node_lock(module: AnsibleModule) -> t.Iterator[None]:
    """Keep all other modules that change the node waiting, for as long as this one and its commands run.

    Raises:
        NodeError: if another module holds the lock for longer than the module's lock_timeout.
        PermissionError: if the user is not root.
    """
    if os.geteuid():
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), locks.NODE)
    seconds = checked_timeout(module.params.get("lock_timeout", locks.NODE_SECONDS))
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(Host().lock(locks.NODE, timeout=seconds, inherit=True))
        except NodeError as error:
            error.message = f"another run changes this node: {error.message}"
            raise
        yield


def _converge(
    check_mode: bool, show_diff: bool, capability: Capability[t.Any], completed: t.List[Step]
) -> t.Dict[str, t.Any]:
    state = capability.observe()
    first = plan = capability.plan(state)
    made: t.Set[t.Tuple[str, ...]] = set()
    while plan.steps and not check_mode:
        made.add(tuple(step.summary for step in plan.steps))
        for step in plan.steps:
            capability.apply(step)
            completed.append(step)
        more = plan.more
        state = capability.observe()
        plan = capability.plan(state)
        _check(plan, made, more)
    steps = completed or list(first.steps)
    shown = bool(steps) and show_diff
    return {
        "changed": bool(steps),
        **described(plan, steps),
        "warnings": list(dict.fromkeys(first.warnings + plan.warnings)),
        "diff": difference(first, steps) if shown else {},
        **capability.result(state, plan),
    }


def described(plan: Plan, steps: t.Sequence[Step]) -> t.Dict[str, t.Any]:
    """Return what is to be said of any plan, with these steps."""
    return {
        "steps": [step.describe() for step in steps],
        "reboot_required": bool(plan.reboot_required),
        "reboot_reasons": list(plan.reboot_required),
        "restart_required": list(plan.restart_required),
        "blocked_by": list(plan.blocked_by),
    }


def refusal(module: str, error: NodeError) -> t.Dict[str, str]:
    """Return an error as its module says it."""
    text = f"{module}: {about(module, error)}"
    return {"msg": text, "cause": error.cause, "hint": error.hint}


def _check(left: Plan, made: t.Collection[t.Tuple[str, ...]], more: bool) -> None:
    """Refuse to go on where steps are left that should not be, or that were made before."""
    summaries = tuple(step.summary for step in left.steps)
    if summaries and not more:
        text = "after all steps this is still to do"
    elif summaries in made:
        text = "this was done and had no effect"
    else:
        return
    cause = f"{text}: {'; '.join(summaries)}"
    hint = "run again with -vvv; if it stays so, report it with this output"
    raise NodeError("the node did not reach the wanted state", cause=cause, hint=hint)


def difference(plan: Plan, steps: t.Sequence[Step]) -> t.Dict[str, str]:
    """Return what --diff shows: the state before and after, and the steps between them."""
    prepared = "".join(f"- {step.summary}\n" for step in steps)
    return {"before": _text(plan.before), "after": _text(plan.after), "prepared": prepared}


def _text(value: t.Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    data = json.loads(json.dumps(value, sort_keys=True, default=str))
    return as_yaml(masked(data)) + "\n"
