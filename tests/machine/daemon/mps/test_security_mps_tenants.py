# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a hostile container with an MPS share can do to the node: genuine runc and control program."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvsim import genuine

from tests.fakes.mps.mps_sharing import GPU, Shared
from tests.fakes.mps.tenants import NOBODY, Container
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT, eventually

MakeShared = Callable[..., Shared]
SHARES = "{resources: [{name: gpu, replicas: 4}]}"
WRITABLE = "{pipeAccess: read-write, resources: [{name: gpu, replicas: 4}]}"

# Puts links to files of the host in the way of all that the daemon makes, until its input ends.
LINKS = """
import os, select, sys
pipe, made, ended = "/tmp/nvidia-mps", {made!r}, False
names = ("nvidia-cuda-mps-control.pid", "log", "control_lock", "control")
told = set()
print("begun", flush=True)
while not ended:
    ended = bool(select.select([sys.stdin], [], [], 0)[0])
    folders = [pipe, *(one.path for one in os.scandir(pipe) if one.is_dir(follow_symlinks=False))]
    for folder in folders:
        for number, name in enumerate(names):
            try:
                os.symlink(f"{{made}}{{number}}", f"{{folder}}/.new")
                os.rename(f"{{folder}}/.new", f"{{folder}}/{{name}}")
            except OSError as error:
                told.add(error.strerror)
print("refused:", sorted(told), flush=True)
"""

FILL = """
import os
written, pipe = 0, "/tmp/nvidia-mps"
for name in [*(one for one in os.listdir(pipe) if one != "log"), "more"]:
    try:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CREAT
        with open(os.open(f"{pipe}/{name}", flags, 0o666), "wb", buffering=0) as stream:
            while written < 64 << 20:
                written += stream.write(b"x" * 65536) or 0
    except OSError as error:
        print(name, error.strerror)
print("written", written)
"""

COMMANDS = """
import subprocess
for command in ("set_default_active_thread_percentage 100", "quit", "shutdown_server 1 -f"):
    done = subprocess.run(["/control"], input=f"{command}\\n", capture_output=True, text=True)
    print(command, "->", (done.stdout + done.stderr).strip())
"""


@pytest.fixture
def shared(make_shared: MakeShared) -> Shared:
    return make_shared(4, SHARES)


@pytest.fixture
def tenant() -> Iterator[Callable[..., Container]]:
    made: list[Container] = []

    def make(shared: Shared, *more: dict[str, Any], user: int = 0) -> Container:
        pod = shared.node.admit(f"tenant{len(made)}", gpu=1)
        made.append(Container([*pod["mounts"], *more], user=user))
        return made[-1]

    yield make
    for one in made:
        one.end()


MakeTenant = Callable[..., Container]


def end_daemon(shared: Shared, uuid: str) -> None:
    """End the control daemon, as a fault or a quit would, so that another one starts."""
    before = shared.state(uuid)["restarts"]

    def ended() -> bool:
        state = shared.state(uuid)
        if state["state"] == "ready":
            with contextlib.suppress(OSError):
                kill(state["daemon"])
        return bool(state["restarts"] > before)

    eventually(ended)


@pytest.mark.attack("mps-daemon-follows-links")
def test_root_in_a_container_makes_no_file_on_the_host(
    make_shared: MakeShared, tenant: MakeTenant, tmp_path: Path
) -> None:
    """Also where containers may write: the daemon starts in a directory that none has seen."""
    shared = make_shared(4, WRITABLE)
    (uuid,) = shared.uuids()
    victim = tmp_path / "victim"
    for number in range(2):  # two of the four are there before, closed to others
        tmp_path.joinpath(f"victim{number}").write_text("secret\n" * 100)
        tmp_path.joinpath(f"victim{number}").chmod(0o640)
    before = {one: (one.read_bytes(), one.stat().st_mode) for one in tmp_path.iterdir()}
    attack = tenant(shared).start(LINKS.format(made=str(victim)))
    assert attack.stdout is not None
    assert attack.stdout.readline() == "begun\n"
    for _again in range(3):
        end_daemon(shared, uuid)
    told, _nothing = attack.communicate(timeout=LIMIT)
    assert "refused:" in told, told
    eventually(lambda: shared.state(uuid)["state"] == "ready")
    after = {one: (one.read_bytes(), one.stat().st_mode) for one in tmp_path.iterdir()}
    assert after == before


@pytest.mark.attack("mps-daemon-follows-links")
def test_no_tenant_can_take_the_place_of_the_daemon(shared: Shared, tenant: MakeTenant) -> None:
    """One who replaces the control socket would have the clients of all others."""
    (uuid,) = shared.uuids()
    assert "Read-only file system" in tenant(shared).run(LINKS.format(made="/nowhere"))
    pipe = Path(shared.node.admit("other", gpu=1)["mounts"][0]["host"])
    assert sorted(one.name for one in pipe.iterdir()) == ["control", "log"]
    assert (pipe / "control").is_socket()
    assert os.readlink(pipe / "log") == "/dev/null"
    own = Path(shared.state(uuid)["pipe"])
    assert (own / "control").stat().st_ino == (pipe / "control").stat().st_ino


@pytest.mark.attack("mps-daemon-follows-links")
def test_root_in_a_container_commands_no_daemon(shared: Shared, tenant: MakeTenant) -> None:
    (uuid,) = shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    program = str(genuine.mps_control())
    more = {"host": program, "container": "/control", "read_only": True}
    told = tenant(shared, more).run(COMMANDS)
    assert "Insufficient privileges for UID 0" in told
    assert "Not enough privilege to execute quit command" in told
    assert shared.state(uuid)["daemon"] == daemon
    assert shared.state(uuid)["state"] == "ready"


@pytest.mark.attack("pipe-directory-fills-run")
def test_no_tenant_fills_the_file_systems_of_the_host(shared: Shared, tenant: MakeTenant) -> None:
    for user in (0, NOBODY):
        told = tenant(shared, user=user).run(FILL)
        assert "Read-only file system" in told
    assert not [
        one for one in shared.root.rglob("*") if one.is_file() and one.stat().st_size > 1 << 20
    ]
    assert shared.state(shared.uuids()[0])["state"] == "ready"


@pytest.mark.attack("pipe-directory-fills-run")
def test_what_a_tenant_may_fill_is_small(make_shared: MakeShared, tenant: MakeTenant) -> None:
    shared = make_shared(4, WRITABLE)
    told = tenant(shared).run(FILL)
    assert int(told.rpartition("written ")[2]) <= 2 << 20, told
    (pipe,) = (
        one
        for one in Path("/proc/mounts").read_text().splitlines()
        if f"{shared.root}/" in one and "/ipc " in one
    )
    assert "size=1024k" in pipe
    assert "nr_inodes=64" in pipe
    assert {"nosuid", "nodev", "noexec"} <= set(pipe.split()[3].split(","))


@pytest.mark.attack("silent-mps-client")
def test_rubbish_in_the_log_silences_no_daemon(shared: Shared, tenant: MakeTenant) -> None:
    """The genuine one hangs when it reads what no client of its own would write."""
    (uuid,) = shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    attacker = tenant(shared)
    script = "stream = open('/tmp/nvidia-mps/log', 'wb', buffering=0); stream.write(b'x' * 65536)"
    attacker.run(script)
    seen = shared.answer(uuid, "get_default_active_thread_percentage")
    assert seen.strip() == "25.0"
    assert (shared.state(uuid)["state"], shared.state(uuid)["daemon"]) == ("ready", daemon)


@pytest.mark.attack("shared-memory-of-tenants")
def test_shared_memory_of_all_devices_is_half_of_the_nodes(make_shared: MakeShared) -> None:
    """Tenants of a GPU share /dev/shm, that can't be closed; what they can fill is bounded."""
    shared = make_shared(8, "{resources: [{name: gpu, replicas: 4}]}", gpus=2)
    sizes = [os.statvfs(shared.root / uuid / "shm") for uuid in shared.uuids()]
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert len(sizes) == 2
    assert sum(one.f_blocks * one.f_frsize for one in sizes) <= whole // 2 + 8192
    for line in Path("/proc/mounts").read_text().splitlines():
        if str(shared.root) in line:
            assert {"nosuid", "nodev", "noexec"} <= set(line.split()[3].split(","))


@pytest.mark.attack("shared-memory-of-tenants")
def test_the_size_can_be_chosen(make_shared: MakeShared) -> None:
    shared = make_shared(4, "{shmSize: 128MiB, resources: [{name: gpu, replicas: 4}]}")
    (uuid,) = shared.uuids()
    found = os.statvfs(shared.root / uuid / "shm")
    assert found.f_blocks * found.f_frsize == 128 << 20
    assert found.f_files == 8192  # each takes memory of the kernel's beside
    refused = shared.node.folder / "refused.yaml"
    refused.write_text("sharing: {mps: {shmSize: 1MiB, resources: [{name: gpu, replicas: 2}]}}\n")
    done: subprocess.CompletedProcess[str] = shared.check(refused)
    assert done.returncode
    assert "sharing.mps.shmSize: '1MiB' is not valid: expected bytes" in done.stderr


@pytest.mark.attack("mps-root-of-a-user")
def test_the_plugin_believes_no_manager_below_a_root_of_others(make_shared: MakeShared) -> None:
    shared = make_shared()
    os.chown(shared.root, NOBODY, NOBODY)
    why = f"MPS can't have its files in {shared.root}: {shared.root} belongs to user {NOBODY}"
    shared.start(SHARES)
    shared.wait(GPU, 0)
    eventually(lambda: why in shared.node.logged())
    assert shared.healthy() == 0
    config = shared.node.folder / "check.yaml"
    config.write_text(f"flags: {{mpsRoot: {shared.root}}}\nsharing: {{mps: {SHARES}}}\n")
    shared.settings.mkdir(exist_ok=True)
    refused = shared.check(config)
    assert refused.returncode
    assert why in refused.stderr
    assert not list(shared.root.iterdir())
