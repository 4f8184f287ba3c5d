# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Commands that this machine runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

HOST = Host()


def test_run_tells_what_a_command_said() -> None:
    code = "import sys; sys.stderr.write('no such luck'); sys.exit(3)"
    with pytest.raises(NodeError, match=r"status 3.*no such luck"):
        HOST.run([sys.executable, "-c", code])
    assert HOST.run([sys.executable, "-c", code], check=False).rc == 3
    assert HOST.run(["/nowhere/at/all"], check=False).rc == 127
    hangs = "import signal; signal.pause()"
    assert HOST.run([sys.executable, "-c", hangs], check=False, timeout=0.2).rc == 124


def test_a_program_that_can_not_be_started_says_why(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/none/of/these\n")
    program.chmod(0o755)
    done = HOST.run([str(program)], check=False)
    assert (done.rc, done.err) == (126, f"{program}: No such file or directory")
    assert HOST.run(["/none"], check=False).rc == 127
