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
    """An object: its path, its present and its desired state, None if it is not there or is to be removed.

    ``rivals`` are other DeviceClasses with the extended resource of a DeviceClass.
    """

    ref: Ref
    path: str
    live: t.Optional[Json]
    after: t.Optional[Json]
    foreign: bool = False
    rivals: t.Tuple[Json, ...] = ()


State = t.Tuple[Seen, ...]


class ClusterObjectsCapability:
    """Keeps objects of a cluster as in manifests, and removes what it has applied."""

    name = "cluster_objects"

    def __init__(
        self,
        params: t.Mapping[str, t.Any],
        connect: t.Callable[[str, str], KubernetesApi] = KubernetesApi,
        pauses: t.Callable[[float], Pauses] = Pauses,
    ) -> None:
        self._params, self._manager, self._pauses = params, params["field_manager"], pauses
        self._declared = objects.flat(params["objects"])
        self._prune = [_kind(kind) for kind in params["prune"]]
        if self._prune and "=" not in params["label"]:
            expected = "the label, as key=value, of what is removed where it is no longer wanted"
            raise InputError.of("label", params["label"], expected)
        self._api = connect(params["kubeconfig"], params["context"])
        self._kinds: t.Dict[str, t.Optional[Json]] = {}
        self._changing = False

    # --- observe ---

    def observe(self) -> State:
        """Read each object, and apply it in a dry run.

        Raises:
            NodeError: if the server can't be asked or refuses an object.
        """
        try:
            if self._params["state"] == "absent":
                return tuple(self._with_rivals(self._look(ref)) for ref in self._declared)
            states = [self._with_rivals(self._trial(*item)) for item in self._declared.items()]
            return (*states, *self._unwanted())
        except ApiError as error:
            explain = interrupted if self._changing else unreached
            raise explain(self._api, error) from error

    def _look(self, ref: Ref) -> Seen:
        path = self._path(ref, missing_ok=True)
        live = self._read(ref, path) if path else None
        if live is None or objects.is_terminating(live):
            return Seen(ref, path, None, None)
        return Seen(ref, path, live, None, not objects.is_ours(live, self._manager))

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

    def _trial(self, ref: Ref, wish: Json) -> Seen:
        path = self._path(ref)
        live = self._read(ref, path)
        space = Ref("v1", "Namespace", ref.namespace)
        if (
            live is None
            and space in self._declared
            and self._read(space, self._path(space)) is None
        ):
            # No dry run can be in a namespace that is yet to be made.
            return Seen(ref, path, None, wish)
        return Seen(ref, path, live, self._send(ref, path, wish, dry=True))

    def _unwanted(self) -> t.Iterator[Seen]:
        """Yield objects that were applied once, have the label, and are no longer in the manifests."""
        declared = {(ref.kind, ref.namespace, ref.name) for ref in self._declared}
        for version, kind in self._prune:
            resource = self._resource(version, kind)
            if resource is None:
                continue
            folder = f"{objects.group_path(version)}/{resource[0]}"
            query = {"labelSelector": self._params["label"]}
            listed = self._api.ask(f"listing {kind}", "GET", folder, query=query)
            for live in listed.get("items") or ():
                live = {"apiVersion": version, "kind": kind, **live}
                ref = objects.ref(live)
                ours = objects.is_ours(live, self._manager) and not objects.is_terminating(live)
                if ours and (ref.kind, ref.namespace, ref.name) not in declared:
                    yield Seen(ref, self._path(ref), live, None)

    def _read(self, ref: Ref, path: str) -> t.Optional[Json]:
        return if_there(lambda: self._api.ask(f"reading {ref}", "GET", path))

    def _send(self, ref: Ref, path: str, wish: Json, *, dry: bool) -> Json:
        query = {"fieldManager": self._manager, "fieldValidation": "Strict"}
        query.update({"force": "true"} if self._params["force"] else {})
        query.update({"dryRun": "All"} if dry else {})
        try:
            return self._api.ask(f"applying {ref}", "PATCH", path, wish, query=query, kind=APPLY)
        except ApiError as error:
            if dry and error.status in INVALID:
                hint = (
                    "correct it in objects, or upgrade Kubernetes where it does not know the field"
                )
                message = f"nothing was changed, as {self._api.server} refuses {ref}"
                raise NodeError(message, cause=error.cause, hint=hint) from error
            if error.status != CONFLICT:
                raise
            refusal = f"{ref} has other values, which somebody else has set"
            hint = "set force to true to take them over, or take them out of objects"
            raise NodeError(refusal, cause=error.cause, hint=hint) from error

    def _resource(self, version: str, kind: str) -> t.Optional[t.Tuple[str, bool]]:
        if version not in self._kinds:
            path = objects.group_path(version)
            self._kinds[version] = self._read(Ref(version, "APIResourceList", path), path)
        return objects.resource_of(self._kinds[version] or {}, kind)

    def _path(self, ref: Ref, *, missing_ok: bool = False) -> str:
        """Return the path of an object.

        Raises:
            NodeError: if the cluster does not have the kind, unless that may be.
        """
        api_resource = self._resource(ref.api_version, ref.kind)
        if api_resource is None:
            if missing_ok:
                return ""
            message = f"{self._api.server} has no {ref.kind} of {ref.api_version}"
            hint = "install what brings that kind, such as cert-manager, or upgrade Kubernetes"
            raise NodeError(message, cause=f"objects has {ref}", hint=hint)
        folder, (resource, namespaced) = objects.group_path(ref.api_version), api_resource
        space = f"/namespaces/{quote(ref.namespace or DEFAULT, safe='')}" if namespaced else ""
        return f"{folder}{space}/{resource}/{quote(ref.name, safe='')}"

    # --- plan and apply ---

    def plan(self, state: State) -> Plan:
        """Return the steps that apply objects in the order of the manifests, and remove some in the reverse order.

        Webhooks are put in force after the Deployments are rolled out, and removed first.
        """
        applied = [
            seen for seen in state if seen.after and not objects.is_same(seen.live, seen.after)
        ]
        removed = [
            seen for seen in reversed(state) if seen.live and not seen.after and _may_go(seen)
        ]
        removed.sort(key=lambda seen: seen.ref.kind not in objects.HOOKS)
        steps = list(_steps(state, applied))
        for seen in removed:
            params = {"path": seen.path, "live": seen.live}
            steps.append(Step("delete", f"remove {seen.ref}", params))
        changing = [*applied, *removed]
        for seen in changing:
            steps += _returns(seen)
        return Plan(
            tuple(steps),
            {str(seen.ref): objects.wishes(seen.live) for seen in changing if seen.live},
            {str(seen.ref): objects.wishes(seen.after) for seen in changing if seen.after},
            warnings=tuple(self._warnings(state)),
        )

    def _warnings(self, state: State) -> t.Iterator[str]:
        yield from self._api.warnings
        for seen in state:
            if seen.live and not seen.after and not _may_go(seen):
                is_space = seen.ref.kind == "Namespace"
                reason = "others may have something in it" if is_space else "others have made it"
                yield f"{seen.ref} stays, as {reason}"
        for seen in state:
            rivalry = (
                names.describe_rivalry(seen.after, seen.live, seen.rivals) if seen.after else ""
            )
            if rivalry:
                yield rivalry
        for ref, wish in self._declared.items() if self._params["state"] == "present" else ():
            warnings = (trust.unpinned(image, "fractions_image") for image in trust.images(wish))
            yield from (f"{ref}: {warning}" for warning in warnings if warning)

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        self._changing = True
        try:
            if step.action == "wait":
                self._wait(step.params["ref"])
            elif step.action == "return":
                self._touch(step.params["ref"], step.params["path"])
            elif step.action == "apply":
                ref = step.params["ref"]
                wish = self._declared[ref]
                wish = objects.asks_nobody(wish) if step.params["early"] else wish
                self._send(ref, self._path(ref), wish, dry=False)
            else:
                self._delete(step.params["path"], step.params["live"])
        except ApiError as error:
            raise interrupted(self._api, error) from error

    def _touch(self, ref: Ref, path: str) -> None:
        """Change an annotation and back, so that the API server notifies the watchers of an object."""
        for value in ("now", None):
            body = {"metadata": {"annotations": {TOUCHED: value}}}
            self._api.ask(f"writing {ref} again", "PATCH", path, body, kind=MERGE)

    def _wait(self, ref: Ref) -> None:
        """Wait until a Deployment is rolled out.

        Raises:
            NodeError: if it makes no progress any more.
        """
        seen: t.Tuple[int, ...] = ()
        while True:
            live = self._api.ask(f"reading {ref}", "GET", self._path(ref))
            if objects.rolled_out(live):
                return
            if objects.progress(live) != seen:
                seen = objects.progress(live)
                pauses = self._pauses(time.monotonic() + objects.patience(live))
            if pauses.over:
                raise self._stuck(ref, live)
            pauses.wait()

    def _stuck(self, ref: Ref, live: Json) -> NodeError:
        (label, value), seconds = objects.selector(live), objects.patience(live)
        cause = ""
        with contextlib.suppress(ApiError):  # the user of the kubeconfig may not look at pods
            cause = objects.causes(self._api.labelled_pods(ref.namespace or DEFAULT, label, value))
        kubectl = f"kubectl --namespace {ref.namespace or DEFAULT}"
        pods = f"--selector {label}={value}"
        logs = "" if cause else f" and {kubectl} logs {pods},"
        return NodeError(
            f"{ref} is not rolled out, and nothing has moved for {seconds} seconds",
            cause=cause or "its pods do not say why",
            hint=f"see {kubectl} describe pods {pods},{logs}"
            " correct it and run again: the API server calls no webhook before these pods answer",
        )

    def _delete(self, path: str, live: Json) -> None:
        """Remove an object, unless it is gone or was replaced since it was read."""
        uid = live["metadata"].get("uid")
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            self._api.ask(f"removing {objects.ref(live)}", "DELETE", path, body)
        except ApiError as error:
            if error.status not in (MISSING, CONFLICT):
                raise

    def result(self, state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the objects that are there."""
        return {"objects": [str(seen.ref) for seen in state if seen.live]}


def _kind(text: str) -> t.Tuple[str, str]:
    version, _slash, kind = text.rpartition("/")
    if not version:
        raise InputError.of("prune", text, "a version and a kind, such as v1/Secret")
    return version, kind


def _steps(state: State, applied: t.Sequence[Seen]) -> t.Iterator[Step]:
    """Yield the steps that apply objects, and wait for Deployments if there are webhooks.

    A webhook's configuration is made before them, as its pods may have to write into it, but matches nothing yet.
    """
    hooks = [seen for seen in applied if seen.ref.kind in objects.HOOKS]
    for seen in applied:
        if seen not in hooks:
            yield _apply(f"{'change' if seen.live else 'make'} {seen.ref}", seen)
        elif not seen.live:
            yield _apply(f"make {seen.ref}, which asks nobody yet", seen, early=True)
    if any(seen.ref.kind in objects.HOOKS and seen.after for seen in state):
        for seen in state:
            if seen.ref.kind != objects.DEPLOYMENT or not seen.after:
                continue
            if seen in applied or (hooks and seen.live and not objects.rolled_out(seen.live)):
                yield Step("wait", f"wait for {seen.ref}", {"ref": seen.ref})
    for hook in hooks:
        yield _apply(f"{'change' if hook.live else 'put in force'} {hook.ref}", hook)


def _apply(summary: str, seen: Seen, *, early: bool = False) -> Step:
    return Step("apply", summary, {"ref": seen.ref, "early": early})


def _returns(seen: Seen) -> t.Iterator[Step]:
    """Yield the steps that have kube-scheduler read the classes again that keep a name that a DeviceClass loses."""
    name = names.extended_resource(seen.live)
    if names.extended_resource(seen.after) == name:
        return
    for rival in names.holders(seen.live, seen.rivals):
        ref = seen.ref._replace(name=rival["metadata"]["name"])
        path = f"{objects.group_path(ref.api_version)}/deviceclasses/{quote(ref.name, safe='')}"
        yield Step("return", f"return {name} to {ref}", {"ref": ref, "path": path})


def _may_go(seen: Seen) -> bool:
    """Return whether an object may be removed: others have not made it, and it is no namespace, which they may use."""
    return not seen.foreign and seen.ref.kind != "Namespace"
