# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of the control program."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.mps import control


class Program:
    """A control program that is started again and again. ``words`` are its last where it does not start."""

    def __init__(self, path: Path) -> None:
        self.path, self.options, self.words = path, [""], "no such option"
        self.hangs = False
        path.write_text("")
        path.chmod(0o755)

    def starts(self, _program: str, option: str) -> tuple[bool, str]:
        self.options.append(option)
        if self.hangs:
            raise NodeError("it neither starts nor ends")
        return option == control.MULTI_USER and not self.words, self.words

    def asked(self) -> list[str]:
        found, self.options = self.options, []
        return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    made = Program(tmp_path / "control")
    monkeypatch.setattr(control, "_starts", made.starts)
    made.asked()
    return made


def test_whether_it_has_servers_for_several_users_is_tried_once_for_each_program(
    program: Program,
) -> None:
    for asked in ([control.MULTI_USER], [], []):
        with pytest.raises(NodeError, match="no such option"):
            control.require_multi_user(str(program.path))
        assert program.asked() == asked
    other = program.path.with_name("other")
    other.write_text("of another driver")
    other.replace(program.path)
    program.words = ""
    for asked in ([control.MULTI_USER, control.NO_OPTION], []):
        control.require_multi_user(str(program.path))
        assert program.asked() == asked


def test_a_program_that_hung_is_tried_again(program: Program) -> None:
    program.words, program.hangs = "", True
    with pytest.raises(NodeError, match="neither starts nor ends"):
        control.require_multi_user(str(program.path))
    program.hangs = False
    control.require_multi_user(str(program.path))
