# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.cluster_objects: server-side apply of manifests, planned by a dry run."""

from __future__ import annotations

import contextlib
import time
import typing as t
from urllib.parse import quote

from ..._base.errors import InputError, NodeError
from ..._base.steps import Plan, Step
from .. import trust
from ..machine.api import CONFLICT, MERGE, MISSING, ApiError, if_there
from ..machine.asking import Pauses, interrupted, unreached
from ..machine.client import KubernetesApi
from . import extended_resources as names
from . import state as objects
from .state import DEFAULT, Json, Ref

APPLY = "application/apply-patch+yaml"
TOUCHED = "gpu.node/touched"
INVALID = (400, 404, 422, 500)  # 500: what is sent does not fit the server's schema


class Seen(t.NamedTuple):
    """An object: where it is, what it is now and what it would be; None where it is not, or is to be gone.

    ``rivals`` are other DeviceClasses with the extended resource of a DeviceClass.
    """

    ref: Ref
    path: str
    live: t.Optional[Json]
    after: t.Optional[Json]
    foreign: bool = False
    rivals: t.Tuple[Json, ...] = ()

    @property
    def loses_name(self) -> bool:
        """Whether others keep an extended resource that this DeviceClass is to lose."""
        name = names.extended_resource(self.live)
        lost = names.extended_resource(self.after) != name
        return lost and bool(names.holders(self.live, self.rivals))


State = t.Tuple[Seen, ...]


class ClusterObjectsCapability:
    """Keeps objects of a cluster as manifests have them, and removes what it has applied."""

    name = "cluster_objects"

    def __init__(
        self,
        params: t.Mapping[str, t.Any],
        connect: t.Callable[[str, str], KubernetesApi] = KubernetesApi,
        pauses: t.Callable[[float], Pauses] = Pauses,
    ) -> None:
        self._params, self._manager, self._pauses = params, params["field_manager"], pauses
        self._wanted = objects.flat(params["objects"])
        self._prune = [_kind(one) for one in params["prune"]]
        if self._prune and "=" not in params["label"]:
            expected = "the label, as key=value, of what is removed where it is no longer wanted"
            raise InputError.of("label", params["label"], expected)
        self._api = connect(params["kubeconfig"], params["context"])
        self._kinds: t.Dict[str, t.Optional[Json]] = {}
        self._changing = False

    # --- observe ---

    def observe(self) -> State:
        """Read each object, and have the server say what it would become. NodeError: it can't be so."""
        try:
            if self._params["state"] == "absent":
                return tuple(self._with_rivals(self._look(one)) for one in self._wanted)
            found = [self._with_rivals(self._trial(*item)) for item in self._wanted.items()]
            return (*found, *self._unwanted())
        except ApiError as error:
            told = interrupted if self._changing else unreached
            raise told(self._api, error) from error

    def _look(self, one: Ref) -> Seen:
        path = self._path(one, missing_ok=True)
        live = self._read(one, path) if path else None
        if live is None or objects.goes(live):
            return Seen(one, path, None, None)
        return Seen(one, path, live, None, not objects.is_ours(live, self._manager))

    def _with_rivals(self, seen: Seen) -> Seen:
        """Return a DeviceClass with the others of its extended resource.

        Raises:
            NodeError: if it would take the name from another, and force is not set.
        """
        states = (seen.live, seen.after)
        if seen.ref.kind != names.KIND or not any(map(names.extended_resource, states)):
            return seen
        path = f"{objects.group_path(seen.ref.api_version)}/deviceclasses"
        classes = self._api.ask("listing DeviceClass objects", "GET", path).get("items") or ()
        rivals = seen._replace(rivals=names.rivals(*states, classes))
        if rivals.after and not self._params["force"]:
            names.check_name(rivals.live, rivals.after, rivals.rivals)
        return rivals

    def _trial(self, one: Ref, wish: Json) -> Seen:
        path = self._path(one)
        live = self._read(one, path)
        space = Ref("v1", "Namespace", one.namespace)
        if live is None and space in self._wanted and self._read(space, self._path(space)) is None:
            # No dry run can be in a namespace that is yet to be made.
            return Seen(one, path, None, wish)
        return Seen(one, path, live, self._send(one, path, wish, dry=True))

    def _unwanted(self) -> t.Iterator[Seen]:
        """Yield what was applied once, has the label, and is in the manifests no more."""
        wanted = {(one.kind, one.namespace, one.name) for one in self._wanted}
        for version, kind in self._prune:
            found = self._resource(version, kind)
            if found is None:
                continue
            folder = f"{objects.group_path(version)}/{found[0]}"
            query = {"labelSelector": self._params["label"]}
            listed = self._api.ask(f"listing {kind}", "GET", folder, query=query)
            for live in listed.get("items") or ():
                live = {"apiVersion": version, "kind": kind, **live}
                one = objects.ref(live)
                ours = objects.is_ours(live, self._manager) and not objects.goes(live)
                if ours and (one.kind, one.namespace, one.name) not in wanted:
                    yield Seen(one, self._path(one), live, None)

    def _read(self, one: Ref, path: str) -> t.Optional[Json]:
        return if_there(lambda: self._api.ask(f"reading {one}", "GET", path))

    def _send(self, one: Ref, path: str, wish: Json, *, dry: bool) -> Json:
        query = {"fieldManager": self._manager, "fieldValidation": "Strict"}
        query.update({"force": "true"} if self._params["force"] else {})
        query.update({"dryRun": "All"} if dry else {})
        try:
            return self._api.ask(f"applying {one}", "PATCH", path, wish, query=query, kind=APPLY)
        except ApiError as error:
            if dry and error.status in INVALID:
                hint = (
                    "correct it in objects, or upgrade Kubernetes where it does not know the field"
                )
                message = f"nothing was changed, as {self._api.server} refuses {one}"
                raise NodeError(message, cause=error.cause, hint=hint) from error
            if error.status != CONFLICT:
                raise
            what = f"{one} has other values, which somebody else has set"
            hint = "set force to true to take them over, or take them out of objects"
            raise NodeError(what, cause=error.cause, hint=hint) from error

    def _resource(self, version: str, kind: str) -> t.Optional[t.Tuple[str, bool]]:
        if version not in self._kinds:
            path = objects.group_path(version)
            self._kinds[version] = self._read(Ref(version, "APIResourceList", path), path)
        return objects.resource_of(self._kinds[version] or {}, kind)

    def _path(self, one: Ref, *, missing_ok: bool = False) -> str:
        """Return where an object is. NodeError: the cluster has no such kind."""
        found = self._resource(one.api_version, one.kind)
        if found is None:
            if missing_ok:
                return ""
            what = f"{self._api.server} has no {one.kind} of {one.api_version}"
            hint = "install what brings that kind, such as cert-manager, or upgrade Kubernetes"
            raise NodeError(what, cause=f"objects has {one}", hint=hint)
        folder, (resource, namespaced) = objects.group_path(one.api_version), found
        space = f"/namespaces/{quote(one.namespace or DEFAULT, safe='')}" if namespaced else ""
        return f"{folder}{space}/{resource}/{quote(one.name, safe='')}"

    # --- plan and apply ---

    def plan(self, state: State) -> Plan:
        """Return what is applied, in the order of the manifests, and what is removed, in the other one.

        What asks a webhook is set when the Deployments are rolled out, and goes first.
        """
        applied = [one for one in state if one.after and not objects.same(one.live, one.after)]
        removed = [one for one in reversed(state) if one.live and not one.after and _may_go(one)]
        removed.sort(key=lambda one: one.ref.kind not in objects.HOOKS)
        steps = list(_steps(state, applied))
        for one in removed:
            steps.append(Step("delete", f"remove {one.ref}", {"path": one.path, "live": one.live}))
        changing = [*applied, *removed]
        steps += [step for one in changing if one.loses_name for step in _returns(one)]
        return Plan(
            tuple(steps),
            {str(one.ref): objects.wishes(one.live) for one in changing if one.live},
            {str(one.ref): objects.wishes(one.after) for one in changing if one.after},
            warnings=(
                *self._api.warnings,
                *filter(None, map(_left, state)),
                *filter(None, map(_rivalry, state)),
                *self._unpinned(),
            ),
        )

    def _unpinned(self) -> t.Iterator[str]:
        for one, wish in self._wanted.items() if self._params["state"] == "present" else ():
            said = (trust.unpinned(image, "fractions_image") for image in trust.images(wish))
            yield from (f"{one}: {words}" for words in said if words)

    def apply(self, step: Step) -> None:
        """Carry out one step. NodeError."""
        self._changing = True
        try:
            if step.action == "wait":
                self._wait(step.params["ref"])
            elif step.action == "return":
                self._touch(step.params["ref"], step.params["path"])
            elif step.action == "apply":
                one = step.params["ref"]
                wish = self._wanted[one]
                wish = objects.asks_nobody(wish) if step.params["early"] else wish
                self._send(one, self._path(one), wish, dry=False)
            else:
                self._delete(step.params["path"], step.params["live"])
        except ApiError as error:
            raise interrupted(self._api, error) from error

    def _touch(self, one: Ref, path: str) -> None:
        """Have the API server tell its watchers of an object that stays as it is."""
        for value in ("now", None):
            body = {"metadata": {"annotations": {TOUCHED: value}}}
            self._api.ask(f"writing {one} again", "PATCH", path, body, kind=MERGE)

    def _wait(self, one: Ref) -> None:
        """Wait until a Deployment is rolled out. NodeError: nothing moves any more."""
        seen: t.Tuple[int, ...] = ()
        while True:
            live = self._api.ask(f"reading {one}", "GET", self._path(one))
            if objects.rolled_out(live):
                return
            if objects.progress(live) != seen:
                seen = objects.progress(live)
                pauses = self._pauses(time.monotonic() + objects.patience(live))
            if pauses.over:
                raise self._stuck(one, live)
            pauses.wait()

    def _stuck(self, one: Ref, live: Json) -> NodeError:
        (label, value), seconds = objects.selector(live), objects.patience(live)
        cause = ""
        with contextlib.suppress(ApiError):  # the user of the kubeconfig may not look at pods
            cause = objects.causes(self._api.labelled_pods(one.namespace or DEFAULT, label, value))
        kubectl, pods = (
            f"kubectl --namespace {one.namespace or DEFAULT}",
            f"--selector {label}={value}",
        )
        logs = "" if cause else f" and {kubectl} logs {pods},"
        return NodeError(
            f"{one} is not rolled out, and nothing has moved for {seconds} seconds",
            cause=cause or "its pods do not say why",
            hint=f"see {kubectl} describe pods {pods},{logs}"
            " correct it and run again: the API server calls no webhook before these pods answer",
        )

    def _delete(self, path: str, live: Json) -> None:
        """Remove the object that was looked at; one that is gone, or another by now, is left alone."""
        uid = live["metadata"].get("uid")
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            self._api.ask(f"removing {objects.ref(live)}", "DELETE", path, body)
        except ApiError as error:
            if error.status not in (MISSING, CONFLICT):
                raise

    def result(self, state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Return which objects are there."""
        return {"objects": [str(one.ref) for one in state if one.live]}


def _kind(text: str) -> t.Tuple[str, str]:
    version, _slash, kind = text.rpartition("/")
    if not version:
        raise InputError.of("prune", text, "a version and a kind, such as v1/Secret")
    return version, kind


def _steps(state: State, applied: t.Sequence[Seen]) -> t.Iterator[Step]:
    """Yield what applies objects, and waits for Deployments where webhooks are among the objects.

    A webhook's configuration is made before them, as its pods may have to write into it, and asks nobody until then.
    """
    hooks = [one for one in applied if one.ref.kind in objects.HOOKS]
    for one in applied:
        if one not in hooks:
            yield _apply(f"{'change' if one.live else 'make'} {one.ref}", one)
        elif not one.live:
            yield _apply(f"make {one.ref}, which asks nobody yet", one, early=True)
    if any(one.ref.kind in objects.HOOKS and one.after for one in state):
        for one in state:
            if one.ref.kind != objects.DEPLOYMENT or not one.after:
                continue
            if one in applied or (hooks and one.live and not objects.rolled_out(one.live)):
                yield Step("wait", f"wait for {one.ref}", {"ref": one.ref})
    for hook in hooks:
        yield _apply(f"{'change' if hook.live else 'put in force'} {hook.ref}", hook)


def _apply(summary: str, one: Seen, *, early: bool = False) -> Step:
    return Step("apply", summary, {"ref": one.ref, "early": early})


def _returns(one: Seen) -> t.Iterator[Step]:
    """Yield what has kube-scheduler know of a name again that a DeviceClass has lost and others keep."""
    name = names.extended_resource(one.live)
    for rival in names.holders(one.live, one.rivals):
        ref = one.ref._replace(name=rival["metadata"]["name"])
        path = f"{objects.group_path(ref.api_version)}/deviceclasses/{quote(ref.name, safe='')}"
        yield Step("return", f"return {name} to {ref}", {"ref": ref, "path": path})


def _rivalry(one: Seen) -> str:
    return names.describe_rivalry(one.after, one.live, one.rivals) if one.after else ""


def _may_go(one: Seen) -> bool:
    """Tell whether an object is removed: what others have made is not, nor a namespace, which others may use."""
    return not one.foreign and one.ref.kind != "Namespace"


def _left(one: Seen) -> str:
    if not (one.live and not one.after) or _may_go(one):
        return ""
    space = one.ref.kind == "Namespace"
    why = "others may have something in it" if space else "others have made it"
    return f"{one.ref} stays, as {why}"
