# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs a capability as an Ansible module: observe, plan, apply, observe again, and report."""

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
    """A part of the node that a module keeps in a desired state. ``S`` is what it observes of it."""

    @property
    def name(self) -> str:
        """Return the capability's name, for error messages."""

    def observe(self) -> S:
        """Read the node; change nothing."""

    def plan(self, state: S) -> Plan:
        """Compute the steps to the desired state.

        Raises:
            NodeError: if they can't be carried out.
        """

    def apply(self, step: Step) -> None:
        """Carry out one step."""

    def result(self, state: S, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the module's own results, besides those that all modules have."""


@t.runtime_checkable
class Owner(t.Protocol):
    """A capability that keeps files of its own on the node."""

    def own(self, state: t.Any) -> OwnFiles:
        """Return the files that the capability may have on a node in this state."""


class WithOwnFiles(t.Generic[S]):
    """A capability that first gives its own files back to root, with their modes.

    It also keeps the list of records up to date, so that a record that is lost is noticed.
    """

    def __init__(self, capability: Capability[S], owner: Owner) -> None:
        self._capability, self._own = capability, owner.own
        self.name, self.result = capability.name, capability.result
        self.observe = capability.observe
        self._files: t.Optional[OwnFiles] = None

    def plan(self, state: S) -> Plan:
        """Compute the steps for the own files, then those of the capability."""
        plan = self._capability.plan(state)
        self._files = self._own(state)
        steps = (*self._files.steps(), *plan.steps)
        self._files.check(steps)
        warnings = (*plan.warnings, *self._files.warnings())
        return dataclasses.replace(plan, steps=steps, warnings=warnings)

    def apply(self, step: Step) -> None:
        """Carry out one step, and list the record if the step has written it, even if it fails after that."""
        files = self._files
        apply = self._capability.apply
        if files is not None and step.action in own_files.ACTIONS:
            apply = files.apply
        if files is None or not files.record:
            apply(step)
            return
        was_there = files.host.exists(files.record)
        try:
            apply(step)
        finally:
            files.note(was_there=was_there)


def with_own_files(capability: Capability[S]) -> Capability[S]:
    """Return the capability, as one WithOwnFiles if it has own files."""
    return WithOwnFiles(capability, capability) if isinstance(capability, Owner) else capability


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
    # Otherwise the login's umask would decide who can read what pip and other programs write here.
    os.umask(UMASK)
    completed: t.List[Step] = []
    name = module._name.rpartition(".")[2]
    # Ansible adds the module's parameters to every result.
    module.no_log_values.update(logins(module.params) | files(module.params))
    try:
        capability = with_own_files(make())
        needs_lock = changes_node and not module.check_mode
        with _node_lock(module) if needs_lock else contextlib.nullcontext():
            result = masked(_converge(module.check_mode, module._diff, capability, completed))
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
            **describe_error(name, error),
            "changed": bool(completed),
            "steps": steps,
            **error.details,
        }
        # Programs repeat their arguments in errors, and logs keep the results of modules.
        module.fail_json(**masked(failure))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)
    raise AssertionError("exit_json returned")


@contextlib.contextmanager
def _node_lock(module: AnsibleModule) -> t.Iterator[None]:
    """Have other modules that change the node wait while this one, or a command that it started, runs.

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
    """Apply plans until one has no steps, and return the module's result.

    Args:
        check_mode: Whether to plan only.
        show_diff: Whether the result has the diff.
        capability: The capability.
        completed: Gets the steps that were applied, also if this raises.

    Raises:
        NodeError: if a plan or a step fails, or the node does not converge.
    """
    state = capability.observe()
    first = plan = capability.plan(state)
    applied: t.Set[t.Tuple[str, ...]] = set()
    while plan.steps and not check_mode:
        applied.add(tuple(step.summary for step in plan.steps))
        for step in plan.steps:
            capability.apply(step)
            completed.append(step)
        more = plan.more
        state = capability.observe()
        plan = capability.plan(state)
        _check_progress(plan, applied, more)
    steps = completed or list(first.steps)
    return {
        "changed": bool(steps),
        **describe_plan(plan, steps),
        "warnings": list(dict.fromkeys(first.warnings + plan.warnings)),
        "diff": describe_diff(first, steps) if steps and show_diff else {},
        **capability.result(state, plan),
    }


def _check_progress(plan: Plan, applied: t.Collection[t.Tuple[str, ...]], more: bool) -> None:
    """Refuse a plan with steps that should not be left.

    Args:
        plan: The plan after steps were applied.
        applied: The summaries of the steps of each plan so far.
        more: Whether the plan before announced further steps.
    """
    summaries = tuple(step.summary for step in plan.steps)
    if summaries and not more:
        text = "after all steps this is still to do"
    elif summaries in applied:
        text = "this was done and had no effect"
    else:
        return
    cause = f"{text}: {'; '.join(summaries)}"
    hint = "run again with -vvv; if it stays so, report it with this output"
    raise NodeError("the node did not reach the wanted state", cause=cause, hint=hint)


def describe_plan(plan: Plan, steps: t.Sequence[Step]) -> t.Dict[str, t.Any]:
    """Return the results of a plan that all modules have, with these steps."""
    return {
        "steps": [step.describe() for step in steps],
        "reboot_required": bool(plan.reboot_required),
        "reboot_reasons": list(plan.reboot_required),
        "restart_required": list(plan.restart_required),
        "blocked_by": list(plan.blocked_by),
    }


def describe_error(module: str, error: NodeError) -> t.Dict[str, str]:
    """Return an error as the results of the module that fails with it."""
    text = f"{module}: {about(module, error)}"
    return {"msg": text, "cause": error.cause, "hint": error.hint}


def describe_diff(plan: Plan, steps: t.Sequence[Step]) -> t.Dict[str, str]:
    """Return what --diff shows: the state before and after, and the steps between them."""
    prepared = "".join(f"- {step.summary}\n" for step in steps)
    return {
        "before": _diff_text(plan.before),
        "after": _diff_text(plan.after),
        "prepared": prepared,
    }


def _diff_text(value: t.Any) -> str:
    """Return a state for the diff: a text as it is, and any other value as YAML without secrets."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    data = json.loads(json.dumps(value, sort_keys=True, default=str))
    return as_yaml(masked(data)) + "\n"
