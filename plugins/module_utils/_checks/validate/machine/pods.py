# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container in a pod of CRI-O that asks the driver for its GPUs, started by crictl as a kubelet would."""

from __future__ import annotations

import json
import time
import typing as t

from ...._base.errors import NodeError
from ...._base.text.json_data import table, table_in
from ...._machine.host import Completed, Host
from ...._runtime.machine.crio import Crio
from .. import pods
from ..containers import Answer, NotTried, Python, answer
from ..daemon import Share

PROGRAM = "crictl"
ATTEMPTS = 3  # a kubelet looks for pods that it does not know every two seconds
SECONDS, PAUSE = 40.0, 0.1
MARGIN = 5.0  # seconds for crictl to say that there was no answer
CLEANING_SECONDS = 10.0  # CRI-O waits so long for a program that ignores SIGTERM


class PodEnded(NodeError):
    """Somebody ended the pod before its container answered."""


class PodTrial:
    """Runs commands in pods of a CRI-O; the files that describe them are in a folder of root's."""

    def __init__(self, host: Host, crio: Crio, folder: str) -> None:
        self._host, self._crio = host, crio
        self._logs = f"{folder}/logs"
        self._pod, self._container = f"{folder}/pod.json", f"{folder}/container.json"
        endpoint = f"unix://{crio.socket()}"
        self._crictl = [
            PROGRAM,
            f"--runtime-endpoint={endpoint}",
            f"--image-endpoint={endpoint}",
        ]

    def run(
        self, command: t.Sequence[str], python: Python, share: t.Optional[Share] = None
    ) -> Answer:
        """Run a command in a container with all GPUs, and with a share by MPS if there is one.

        Raises:
            NotTried: if no container can be started here, or somebody ends each.
        """
        if self._host.which(PROGRAM) is None:
            raise NotTried(f"the program {PROGRAM} is not on the node")
        image = self._crio.pause_image()
        if not image or self._call("inspecti", image).rc:
            raise NotTried(
                f"{image or 'an image'}, with which CRI-O begins pods, is not on the node"
            )
        self._host.write(self._pod, json.dumps(pods.pod(self._logs)), mode=0o600)
        config = pods.container(image, command, python, share)
        self._host.write(self._container, json.dumps(config), mode=0o600)
        for _attempt in range(ATTEMPTS):
            try:
                return self._try()
            except PodEnded as error:
                reason = error
        raise NotTried(str(reason))

    def _try(self) -> Answer:
        pod = ""
        self._remove()
        try:
            pod = self._make("runp", self._pod)
            container = self._make("create", "--no-pull", pod, self._container, self._pod)
            self._make("start", container)
            status = self._wait(container)
            output = pods.printed(self._host.read(f"{self._logs}/{pods.LOG}") or "")
            if "{" not in output and (pods.was_killed(status) or self._is_stopped(pod)):
                raise _ended()
            return answer(output, "", int(status.get("exitCode") or 0))
        except NodeError as error:
            if pod and self._is_stopped(pod):
                raise _ended() from error
            raise
        finally:
            self._remove()

    def _wait(self, container: str) -> pods.Message:
        """Return the status of a container that has ended, an empty one if it is gone."""
        deadline = time.monotonic() + SECONDS
        while True:
            shown = self._call("inspect", "--output=json", container)
            status = table(table_in(shown.out).get("status"))
            if shown.rc or pods.has_ended(status):
                return status
            if time.monotonic() >= deadline:
                raise NodeError(f"the program in it has not ended within {SECONDS:g} seconds")
            time.sleep(PAUSE)

    def _is_stopped(self, pod: str) -> bool:
        shown = self._call("inspectp", "--output=json", pod)
        return bool(shown.rc) or not pods.is_ready(table_in(shown.out))

    def _remove(self) -> None:
        """Remove the pod, or what a killed run has left."""
        listed = self._call("pods", "--quiet", f"--label={pods.LABEL}={pods.VALUE}")
        if not listed.rc and listed.out.split():
            self._call("rmp", "--force", *listed.out.split(), seconds=CLEANING_SECONDS)
        self._host.remove(self._logs)

    def _make(self, *args: str) -> str:
        """Return the ID of what a command has made."""
        completed = self._call(*args)
        if completed.rc:
            raise NodeError(pods.cause(completed.err or completed.out))
        return completed.out.strip()

    def _call(self, *args: str, seconds: float = SECONDS) -> Completed:
        argv = [*self._crictl, f"--timeout={seconds:g}s", *args]
        return self._host.run(argv, check=False, timeout=seconds + MARGIN)


def _ended() -> PodEnded:
    return PodEnded("its pod was ended, as a kubelet ends pods that it does not know")
