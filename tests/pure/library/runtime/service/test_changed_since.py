# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A runtime that runs on an older configuration than its files have is restarted, whoever changed them."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.runtimes import (
    look,
    there,
)
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import record
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import MARK, Records

from tests.fakes.library.runtime_host import CONFIG, CRIO, DAEMON, RuntimeHost, converge, planned

UNIT = "containerd.service"
IMPORTED = "/etc/containerd/more/other.toml"
IMPORTING = f'version = 2\nimports = ["{IMPORTED}"]\n'


def now() -> float:
    return record.time.time()


def uptime() -> float:
    return record.time.monotonic()


def ready(text: str = "version = 2\n", **runtimes: str) -> RuntimeHost:
    """Return a node that is set up and whose runtime has read its files."""
    runtimes = runtimes or {"containerd": "1.7.24"}
    config = {"containerd": CONFIG, "crio": CRIO, "docker": DAEMON}[next(iter(runtimes))]
    host = RuntimeHost({config: text}, **runtimes)  # type: ignore[arg-type]
    name = {"crio": "cri-o"}.get(next(iter(runtimes)), next(iter(runtimes)))
    converge(host, name=name)
    host.started(uptime())
    host.files.pop(MARK, None)  # as after a restart long ago
    host.times = dict.fromkeys(host.files, now() - 60)
    assert planned(host, name=name).steps == ()
    return host


def summaries(host: RuntimeHost, **params: str) -> list[str]:
    return [step.summary for step in planned(host, **params).steps]


@pytest.mark.parametrize("path", [CONFIG, IMPORTED])
def test_a_file_that_was_changed_after_the_start_is_seen_and_ends_in_a_restart(path: str) -> None:
    host = ready(IMPORTING)
    host.files.setdefault(IMPORTED, "version = 2\n")
    host.times[path] = now()
    host.started(uptime() - 1)
    told = f"restart {UNIT}: {path} was changed after it had started"
    plan = planned(host)
    assert [(step.summary, step.needs) for step in plan.steps] == [(told, (f"restart:{UNIT}",))]
    assert plan.restart_required == (UNIT,)
    assert converge(host) == [told]
    assert planned(host).restart_required == (UNIT,)  # as long as nobody has restarted it
    host.started(uptime() + 1)
    assert planned(host).restart_required == ()


def test_a_file_that_was_put_back_with_its_times_is_seen() -> None:
    host = ready()
    host.ctimes[CONFIG] = now()
    host.started(uptime() - 1)
    assert f"{CONFIG} was changed" in summaries(host)[0]


def test_cri_o_reads_its_own_file_and_a_folder() -> None:
    host = ready("", crio="1.30.0")
    for path in ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/10-mine.conf"):
        host.files[path] = ""
        host.times[path] = now()
        host.started(uptime() - 1)
        assert f"{path} was changed" in summaries(host, name="cri-o")[0]
        host.started(uptime() + 1)


def test_a_reload_of_docker_has_read_the_file() -> None:
    host = ready("{}", docker="28.5.0")
    host.times[DAEMON] = now()
    host.started(uptime() - 2, reloaded=uptime() - 1)
    assert "restart docker.service" in summaries(host, name="docker")[0]
    host.started(uptime() - 2, reloaded=uptime() + 1)
    assert summaries(host, name="docker") == []


def test_a_restart_waits_as_after_a_change_of_ours() -> None:
    host = ready()
    host.times[CONFIG] = now()
    host.started(uptime() - 1)
    noted = f"note that {UNIT} must be restarted: {CONFIG} was changed after it had started"
    assert converge(host, restart="never") == [noted]
    plan = planned(host, restart="never")
    assert (plan.steps, plan.restart_required) == ((), ())
    assert [one for one in plan.warnings if f"{UNIT} must be restarted" in one]


def test_an_edit_of_ours_that_came_to_nothing_takes_no_restart() -> None:
    """The file is newer than the service all the same."""
    host = ready()
    host.times[CONFIG] = now() - 0.5
    host.started(uptime() - 1)
    Records(host).wrote(CONFIG)  # type: ignore[arg-type]
    assert summaries(host) == []
    host.times[CONFIG] += 0.001
    assert f"{CONFIG} was changed" in summaries(host)[0]


def test_a_time_that_is_yet_to_come_says_nothing() -> None:
    """It would have the runtime restarted in each run."""
    host = ready()
    host.times[CONFIG] = now() + 86400
    assert summaries(host) == []


def test_systemd_is_not_asked_for_times_where_files_are_from_before_the_boot() -> None:
    host = ready()
    host.times = dict.fromkeys(host.files, 0.0)
    host.ran.clear()
    assert summaries(host) == []
    assert [words for words in host.ran if "Timestamp" in " ".join(words)] == []


def test_what_is_removed_restarts_nothing_for_the_changes_of_others() -> None:
    host = ready()
    host.times[CONFIG] = now()
    host.started(uptime() - 1)
    converge(host, state="absent")
    host.started(uptime() + 1)
    host.times[CONFIG] = now() + 2
    assert planned(host, state="absent").restart_required == ()


def test_a_validation_tells_of_it() -> None:
    host = ready()
    host.files[cdi_boot.CONFIG] = cdi_boot.dump(cdi_boot.Options("/etc/cdi/nvidia.yaml"))
    (good,) = look(host, there(host), required=True).values()  # type: ignore[arg-type]
    assert good.cause == ""
    host.times[CONFIG] = now()
    host.started(uptime() - 1)
    (found,) = look(host, there(host), required=True).values()  # type: ignore[arg-type]
    assert found.cause == f"{UNIT} has not read {CONFIG} since that was changed"
    assert found.next_step.startswith(f"systemctl restart {UNIT}")


@pytest.mark.parametrize("reports", [True, False])
def test_a_change_of_others_counts_unless_the_process_reports_our_settings(reports: bool) -> None:
    host = ready("{}", docker="28.5.0")
    host.files[cdi_boot.CONFIG] = cdi_boot.dump(cdi_boot.Options("/etc/cdi/nvidia.yaml"))
    host.times[DAEMON] = now()
    host.started(uptime() - 1)
    if reports:
        host.answers["/var/run/docker.sock", "/info"] = {
            "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]
        }
    (check,) = look(host, there(host), required=True).values()  # type: ignore[arg-type]
    assert (check.cause == "", summaries(host, name="docker") == []) == (reports, reports)
