# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding A6: an edit that does not hold is undone, and what is told of it is true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import MARK

from tests.fakes.library.runtime_host import CONFIG, OLD, RuntimeHost, capability

TEXT = "version = 2\n"
OFF = f'version = 2\n[plugins."{OLD}"]\nenable_cdi = false\n'


class Fickle(RuntimeHost):
    """A machine whose containerd says something else once its file is written; a second write may fail."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__({CONFIG: TEXT}, containerd="1.7.24")
        self.fails, self.written = fails, 0

    def write(self, path: str, text: str, **values: Any) -> str | None:
        if path == CONFIG:
            self.written += 1
            self.commands["containerd", "--config"] = Completed(0, OFF, "")
            if self.fails and self.written == 2:
                raise NodeError(f"cannot write {path}", cause="No space left on device")
        return super().write(path, text, **values)


def applied(host: RuntimeHost) -> NodeError:
    one = capability(host)
    (step,) = one.plan(one.observe()).steps
    with pytest.raises(NodeError, match="did not take enable_cdi = true") as caught:
        one.apply(step)
    return caught.value


def test_file_is_as_it_was_and_nothing_is_remembered() -> None:
    host = Fickle(fails=False)
    error = applied(host)
    assert host.own_files() == {CONFIG: TEXT}
    assert set(json.loads(host.files[MARK])) == {
        CONFIG
    }  # that it is newer than the service says nothing
    assert "nothing was changed" in str(error)
    assert "changed" not in error.details


def test_file_that_cannot_be_put_back_is_told() -> None:
    host = Fickle(fails=True)
    error = applied(host)
    assert error.details["changed"] is True
    assert f"restore {CONFIG}, which is left changed: cannot write" in str(error)
