# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How much memory processes may lock: written for services that are there, told until they start, and taken back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._host.memlock import LIMITS, drop_in
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.host.host_nodes import Killed, run
from tests.fakes.library.fakes import TRIXIE, FakeHost

ROWS = "Limit                     Soft Limit           Hard Limit           Units\n"
LOW = 8 << 20  # what systemd gives


class ServicesHost(FakeHost):
    """A node with services, each with its unit's own limit, its files as systemd has read them, and its process."""

    def __init__(self, **units: int | None) -> None:
        super().__init__(dict(TRIXIE))
        self.units = {f"{name}.service": limit for name, limit in units.items()}
        self.overruled: dict[str, int] = {}  # by drop-ins of somebody else that come after ours
        self.commands[("systemctl", "show")] = self._show
        self.commands[("systemctl", "daemon-reload")] = self._reload
        self.until, self.changes = -1, 0
        self._reload(())
        for number, unit in enumerate(self.units, 10):
            self.start(unit, number)

    def _reload(self, _argv: tuple[str, ...]) -> Completed:
        self.read_files = {name: self.files.get(drop_in(name)) for name in self.units}
        return Completed(0, "", "")

    def limit(self, unit: str) -> str:
        """Return the limit that a unit starts with."""
        if unit in self.overruled:
            return str(self.overruled[unit])
        own = self.units[unit]
        text = self.read_files[unit]
        last = text.strip().rpartition("LimitMEMLOCK=")[2] if text else ""
        return last or ("infinity" if own is None else str(own))

    def start(self, unit: str, pid: int) -> None:
        words = {"infinity": "unlimited"}.get(self.limit(unit), self.limit(unit))
        self.pids = {**getattr(self, "pids", {}), unit: pid}
        row = f"Max locked memory         {words}              {words}              bytes\n"
        self.files[f"/proc/{pid}/limits"] = ROWS + row

    def _show(self, argv: tuple[str, ...]) -> Completed:
        blocks = []
        for unit in argv[2:-1]:
            if unit not in self.units:
                blocks.append(f"Id={unit}\nLoadState=not-found\nMainPID=0\nNeedDaemonReload=no\n")
                continue
            stale = self.read_files[unit] != self.files.get(drop_in(unit))
            blocks.append(
                f"Id={unit}\nLoadState=loaded\nLimitMEMLOCK={self.limit(unit)}\n"
                f"MainPID={self.pids[unit]}\nNeedDaemonReload={'yes' if stale else 'no'}\n"
            )
        return Completed(0, "\n".join(blocks), "")

    def write(self, path: str, text: str, **values: Any) -> str | None:
        self._change()
        return super().write(path, text, **values)

    def run(self, argv: Any, **values: Any) -> Completed:
        if argv[1] == "daemon-reload":
            self._change()
        return super().run(argv, **values)

    def _change(self) -> None:
        if self.changes == self.until:
            raise Killed
        self.changes += 1


def test_services_that_are_there_get_it_and_their_next_start_is_told() -> None:
    host = ServicesHost(containerd=LOW, slurmd=None, sshd=LOW)
    before = dict(host.files)
    done = run(host, memlock="unlimited")
    assert done["warnings"] == [
        "host: memlock waits for a restart of containerd.service, sshd.service: until then what is started there may "
        "lock less. Next step: restart what is named, or reboot the node"
    ]
    assert drop_in("slurmd.service") not in host.files  # it has it already
    assert "LimitMEMLOCK=infinity" in host.files[drop_in("containerd.service")]
    assert "* hard memlock unlimited\n" in host.files[LIMITS]
    assert done["restart_required"] == ["containerd.service", "sshd.service"]
    again = run(host, memlock="unlimited")
    assert (again["changed"], again["restart_required"]) == (False, done["restart_required"])
    for unit, pid in list(host.pids.items()):
        host.start(unit, pid)
    assert run(host, memlock="unlimited")["restart_required"] == []
    run(host, state="absent")
    assert {path for path in host.files if not path.startswith("/proc")} == {
        path for path in before if not path.startswith("/proc")
    }
    assert not run(host, state="absent")["changed"]


def test_a_number_of_gib_is_written_in_each_ones_unit() -> None:
    host = ServicesHost(containerd=LOW, slurmd=None)
    run(host, memlock="16G")
    assert f"LimitMEMLOCK={16 << 30}" in host.files[drop_in("containerd.service")]
    assert f"root soft memlock {16 << 20}\n" in host.files[LIMITS]
    assert not run(host, memlock="16G")["changed"]
    run(host, memlock="unlimited")
    assert "infinity" in host.files[drop_in("containerd.service")]


def test_a_service_that_was_started_with_less_is_found() -> None:
    host = ServicesHost(containerd=LOW)
    run(host, memlock="unlimited")
    host.start("containerd.service", 10)
    host.files["/proc/10/limits"] = host.files["/proc/10/limits"].replace("unlimited", str(LOW))
    done = run(host, check=True, memlock="unlimited")
    assert done["restart_required"] == ["containerd.service"]
    assert "waits for a restart of containerd.service: until then" in done["warnings"][0]


def test_a_limit_that_systemd_has_and_nobody_writes_any_more_is_written_again() -> None:
    host = ServicesHost(containerd=LOW, docker=LOW)
    run(host, memlock="unlimited")
    for others in ([], ["docker.service"]):
        for unit in ("containerd.service", *others):
            host.remove(drop_in(unit))
        looked = run(host, check=True, memlock="unlimited")
        assert "have systemd read containerd.service" in looked["steps"][0]["summary"]
        run(host, memlock="unlimited")
        assert host.limit("containerd.service") == host.limit("docker.service") == "infinity"
        assert not run(host, memlock="unlimited")["changed"]


def test_a_drop_in_that_comes_after_ours_is_told() -> None:
    host = ServicesHost(containerd=LOW, sshd=LOW)
    run(host, memlock="16G")
    host.overruled["sshd.service"] = LOW
    looked = run(host, check=True, memlock="16G")
    assert (looked["changed"], looked["restart_required"]) == (False, ["containerd.service"])
    assert looked["warnings"][1] == (
        "host: sshd.service starts with less than memlock, as another of its drop-ins sets LimitMEMLOCK. Next step: "
        "find it by systemctl cat sshd.service, and remove that from it"
    )


@pytest.mark.parametrize(
    ("path", "text", "wins"),
    [
        ("limits.d/zzz-site.conf", "* hard memlock 64", True),
        ("limits.d/zzz-site.conf", "*\t-\tmemlock\t67108864 # 64 GiB", False),
        ("limits.d/zzz-site.conf", "# * hard memlock 64", False),
        ("limits.d/zzz-site.conf", "* hard nofile 64", False),
        ("limits.d/90-site.conf", "* hard memlock 64", False),
        ("limits.d/90-site.conf", "@hpc soft memlock 64", True),
        ("limits.d/90-site.conf", "@hpc soft memlock unlimited", False),
        ("limits.conf", "alice - memlock 64", True),
        ("limits.conf", "root hard memlock 64", False),
    ],
)
def test_a_lower_limit_of_sessions_that_wins_is_told(path: str, text: str, wins: bool) -> None:
    host = ServicesHost(sshd=None)
    run(host, memlock="64G")
    host.files[f"/etc/security/{path}"] = f"# limits\n{text}\n"
    looked = run(host, check=True, memlock="64G")
    said = f"host: /etc/security/{path} gives sessions a lower limit than memlock"
    assert [one.partition(". ")[0] for one in looked["warnings"]] == [said] * wins
    assert not looked["changed"]


@pytest.mark.parametrize("params", [{"memlock": "unlimited"}, {"state": "absent"}])
def test_what_a_killed_run_has_left_is_finished(params: dict[str, Any]) -> None:
    for at in range(5):
        host = ServicesHost(containerd=LOW, docker=LOW)
        if "state" in params:
            run(host, memlock="unlimited")
        host.until, host.changes = at, 0
        ended = True
        try:
            run(host, **params)
        except Killed:
            ended = False
        host.until = -1
        run(host, **params)
        assert {host.limit(unit) for unit in host.units} == (
            {str(LOW)} if "state" in params else {"infinity"}
        )
        assert not run(host, **params)["changed"]
        if ended:
            return
    raise AssertionError("it never ended")


@given(st.text() | st.sampled_from(["8G", "15G", "16", "infinity", "64g", "16G "]))
def test_what_is_no_limit_is_refused(value: str) -> None:
    if value == "unmanaged":
        return
    with pytest.raises(InputError, match="unlimited, or 16G or more"):
        run(ServicesHost(), memlock=value)
