# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding A3: a handler that CRI-O's daemon starts with, also where its packages have conmon outside PATH."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.visible_devices import TOOLKIT_CONFIG
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import RECORD

from tests.fakes.library.runtime_host import CRIO, WRAPPER, RuntimeHost, capability, converge
from tests.fakes.runtime.crio_files import CONMON, CRUN, PACKAGE, PACKAGED, RUNC, SITE

INHERITED = {
    "runtime_root": "/run/crun",
    "monitor_path": CONMON,
    "monitor_env": ["PATH=/usr/bin"],
    "allowed_annotations": ["io.containers.trace-syscall"],
}
MODES = ["runtime_class", "default_runtime"]


def packaged(text: str = PACKAGED, **files: str) -> RuntimeHost:
    host = RuntimeHost({PACKAGE: text, **files}, crio="1.36.0")
    del host.commands["conmon",], host.commands["runc",]
    for path in (CONMON, CRUN, RUNC):
        host.files[path] = host.commands[path,] = ""
    host.install_toolkit()
    return host


def entry(host: RuntimeHost) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(host.files[CRIO])["crio"]["runtime"]["runtimes"]["nvidia"]
    return found


@pytest.mark.parametrize("mode", MODES)
def test_handler_inherits_from_the_default_runtime(mode: str) -> None:
    host = packaged()
    before = host.own_files()
    converge(host, name="cri-o", mode=mode)
    assert entry(host) == {"runtime_path": WRAPPER, **INHERITED}
    assert converge(host, name="cri-o", mode=mode) == []
    converge(host, name="cri-o", mode=MODES[mode == MODES[0]])
    assert entry(host) == {"runtime_path": WRAPPER, **INHERITED}
    # What the default runtime has changes, and the handler follows.
    host.files[PACKAGE] = PACKAGED.replace("/run/crun", "/run/other")
    converge(host, name="cri-o", mode=mode)
    assert entry(host)["runtime_root"] == "/run/other"
    host.files[PACKAGE] = PACKAGED
    converge(host, name="cri-o", state="absent")
    assert host.own_files() == before


@pytest.mark.parametrize("mode", MODES)
def test_handler_has_all_options_of_the_sites_runtime(mode: str) -> None:
    host = packaged(**{"/etc/crio/crio.conf.d/20-site.conf": SITE})
    before = host.own_files()
    converge(host, name="cri-o", mode=mode)
    assert entry(host) == {
        "runtime_path": WRAPPER,
        "runtime_root": "/run/crun",
        "monitor_path": CONMON,
        "container_min_memory": "20MiB",
        "container_create_timeout": 600,
        "seccomp_profile": "/etc/crio/seccomp-node.json",
        "default_annotations": {"site.example/class": "gpu"},
    }
    assert converge(host, name="cri-o", mode=mode) == []
    changed = SITE.replace("seccomp-node", "seccomp-other")
    host.files["/etc/crio/crio.conf.d/20-site.conf"] = changed
    converge(host, name="cri-o", mode=mode)
    assert entry(host)["seccomp_profile"] == "/etc/crio/seccomp-other.json"
    host.files["/etc/crio/crio.conf.d/20-site.conf"] = changed.replace("seccomp_profile", "# ")
    converge(host, name="cri-o", mode=mode)
    assert "seccomp_profile" not in entry(host)
    host.files["/etc/crio/crio.conf.d/20-site.conf"] = SITE
    converge(host, name="cri-o", state="absent")
    assert host.own_files() == before


def test_handler_of_an_earlier_release_is_moved_and_mended() -> None:
    old = "/etc/crio/crio.conf.d/99-gpu-node.conf"
    host = packaged()
    converge(host, name="cri-o", mode="runtime_class")
    text = f'[crio.runtime.runtimes.nvidia]\nruntime_path = "{WRAPPER}"\n'
    path = ["crio", "runtime", "runtimes", "nvidia", "runtime_path"]
    written = {"runtime": "cri-o", "base": None, "text": text, "entries": [[path, WRAPPER, [], 0]]}
    host.files[RECORD] = json.dumps({old: written})
    host.files[old] = text
    del host.files[CRIO]
    converge(host, name="cri-o", mode="runtime_class")
    assert old not in host.files
    assert entry(host) == {"runtime_path": WRAPPER, **INHERITED}


def test_entry_of_another_tool_is_replaced_as_a_whole() -> None:
    theirs = '[crio.runtime.runtimes.nvidia]\nruntime_path = "/opt/x"\nmonitor_path = "/m"\n'
    host = packaged(**{"/etc/crio/crio.conf.d/99-nvidia.toml": theirs})
    converge(host, name="cri-o", mode="runtime_class")
    assert entry(host) == {"runtime_path": WRAPPER, **INHERITED}


def test_complete_entry_of_another_tool_is_enough() -> None:
    lines = [f"{key} = {value!r}" for key, value in {"runtime_path": WRAPPER, **INHERITED}.items()]
    theirs = "\n".join(["[crio.runtime.runtimes.nvidia]", *lines, ""])
    host = packaged(**{"/etc/crio/crio.conf.d/99-nvidia.toml": theirs})
    assert converge(host, name="cri-o", mode="runtime_class") == []


def test_file_that_is_read_later_is_found_on_the_trial() -> None:
    theirs = f'[crio.runtime.runtimes.nvidia]\nruntime_path = "/x"\nmonitor_path = "{CONMON}"\n'
    host = packaged(**{"/etc/crio/crio.conf.d/zzz/one": theirs})
    before = host.own_files()
    one = capability(host, name="cri-o", mode="runtime_class")
    with pytest.raises(
        NodeError, match=r"would still not have runtime_path.*zzz/one sets it otherwise"
    ):
        one.plan(one.observe())
    assert host.own_files() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            PACKAGED.replace(f'monitor_path = "{CONMON}"\n', ""),
            "PATH has no conmon, and the runtime crun",
        ),
        (PACKAGED.replace(CONMON, "/opt/conmon"), "its monitor /opt/conmon is not there"),
        ("", "PATH has no conmon"),
    ],
)
def test_daemon_that_would_not_start_is_seen_before_the_write(text: str, words: str) -> None:
    host = packaged(text)
    before = host.own_files()
    one = capability(host, name="cri-o", mode="runtime_class")
    with pytest.raises(NodeError, match=f"would not start with the handler nvidia: {words}"):
        one.plan(one.observe())
    assert host.own_files() == before


@pytest.mark.parametrize(
    "text", ["", PACKAGED, '[crio.runtime]\nconmon = "/usr/libexec/crio/conmon"\n']
)
def test_conmon_in_path_or_named_for_all(text: str) -> None:
    host = packaged(text)
    if not text:
        host.commands["conmon",] = ""
    converge(host, name="cri-o", mode="runtime_class")
    assert entry(host)["runtime_path"] == WRAPPER


def test_virtual_machines_are_no_model() -> None:
    kata = '[crio.runtime]\ndefault_runtime = "kata"\n[crio.runtime.runtimes.kata]\n'
    kata += 'runtime_path = "/k"\nruntime_type = "vm"\nruntime_root = "/run/kata"\n'
    host = packaged(**{"/etc/crio/crio.conf.d/20-kata.conf": kata})
    converge(host, name="cri-o", mode="runtime_class")
    assert entry(host) == {"runtime_path": WRAPPER, **INHERITED}


def test_low_level_runtimes_outside_path_are_a_warning() -> None:
    config = "/etc/nvidia-container-runtime/config.toml"
    host = packaged()
    one = capability(host, name="cri-o", mode="runtime_class")
    (warning,) = one.plan(one.observe()).warnings
    assert "looks for runc or crun" in warning
    assert config in warning
    host.files[config] = '[nvidia-container-runtime]\nruntimes = ["/usr/libexec/crio/crun"]\n'
    host.commands["/usr/libexec/crio/crun",] = ""
    assert one.plan(one.observe()).warnings == ()


def test_copy_of_a_file_is_no_configuration() -> None:
    """CRI-O reads each file of the folder, whatever its name."""
    host = packaged()
    converge(host, name="cri-o", mode="default_runtime", backup=True)
    converge(host, name="cri-o", mode="runtime_class", backup=True)
    shown = tomllib.loads(host.run(["crio", "config"]).out)["crio"]["runtime"]
    assert shown["default_runtime"] == "crun"
    folder = "/etc/crio/crio.conf.d/"
    assert [one for one in host.files if one.startswith(folder)] == [PACKAGE, CRIO]


def test_setting_that_another_file_still_has_after_it_was_taken_back_is_an_error() -> None:
    host = packaged()
    converge(host, name="cri-o", mode="default_runtime")
    one = capability(host, name="cri-o", mode="runtime_class")
    (step,) = one.plan(one.observe()).steps
    host.files["/etc/crio/crio.conf.d/zzz"] = '[crio.runtime]\ndefault_runtime = "nvidia"\n'
    with pytest.raises(
        NodeError, match=r"still has default_runtime = nvidia: .*zzz sets it otherwise"
    ):
        one.apply(step)


def test_error_of_crio_is_told_without_what_it_informs_of() -> None:
    host = packaged()
    said = [
        'time="2026-11-29T12:00:00Z" level=info msg="Updating config from drop-in file"',
        'time="2026-11-29T12:00:00Z" level=fatal msg="unable to decode: toml: line 1"',
    ]
    host.commands["crio", "config"] = Completed(1, "", "\n".join([*said, ""]))
    one = capability(host, name="cri-o")
    with pytest.raises(NodeError, match=r"can't read its configuration.*line 1") as caught:
        one.observe()
    assert "level=info" not in str(caught.value)
    assert "fix the file that it names" in caught.value.hint


def start(host: RuntimeHost, pid: int, container: str, program: str) -> None:
    """Have a container run, whose monitor CRI-O has started outside of its unit."""
    words = [CONMON, "-s", "-c", container, "-n", "k8s_pod", "-u", container, "-r", program]
    host.files[f"/proc/{pid}/cmdline"] = "\0".join(
        [*words, "--runtime-arg", "--root=/run/crun", ""]
    )


ID, OTHER = "4f2c66a1b7d09e31", "9a1d03c7e5b24f60"
RUNTIMES = "[nvidia-container-runtime]\nruntimes = [{}]\n"


def test_default_runtime_that_would_lose_running_containers_is_refused() -> None:
    """NVIDIA's runtime calls runc where it is there, and crun has started what runs."""
    host = packaged()
    host.commands["runc",] = host.commands["crun",] = ""
    start(host, 500, ID, "/usr/libexec/crio/crun")
    start(host, 501, OTHER, "/usr/libexec/crio/runc")
    before = host.own_files()
    with pytest.raises(
        NodeError, match=rf"would lose {ID[:12]}:.*nvidia, which calls runc"
    ) as caught:
        converge(host, name="cri-o", mode="default_runtime")
    assert f"name crun first in 'runtimes' of [nvidia-container-runtime] in {TOOLKIT_CONFIG}" in (
        caught.value.hint
    )
    assert host.own_files() == before
    converge(host, name="cri-o", mode="runtime_class")
    host.files[TOOLKIT_CONFIG] = RUNTIMES.format('"crun", "runc"')
    converge(host, name="cri-o", mode="default_runtime")
    host.files[TOOLKIT_CONFIG] = RUNTIMES.format('"runc"')
    converge(host, name="cri-o", mode="default_runtime")  # which nothing changes any more


def test_containers_of_the_runtime_that_is_built_in_are_not_lost() -> None:
    """CRI-O finds it in PATH, and its monitors are told the whole path."""
    host = RuntimeHost({}, crio="1.36.3")
    host.install_toolkit()
    host.commands["runc",] = host.commands["conmon",] = ""
    start(host, 500, ID, "/usr/bin/crun")
    host.files["/proc/501/cmdline"] = "/usr/bin/containerd-shim-runc-v2\0-id\0other\0"
    with pytest.raises(NodeError, match=rf"would lose {ID[:12]}: .*crun has started them"):
        converge(host, name="cri-o", mode="default_runtime")
    host.commands["crun",] = ""
    host.files[TOOLKIT_CONFIG] = RUNTIMES.format('"crun"')
    converge(host, name="cri-o", mode="default_runtime")
    assert entry(host)["runtime_root"] == "/run/crun"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", [{"state": "absent"}, {"mode": "cdi"}], ids=["absent", "cdi"])
def test_handler_of_running_containers_is_not_taken_away(mode: str, change: dict[str, str]) -> None:
    host = packaged()
    host.commands["crun",] = ""
    converge(host, name="cri-o", mode=mode)
    start(host, 500, ID, WRAPPER)
    there = host.own_files()
    with pytest.raises(NodeError, match=rf"would lose {ID[:12]}:.*under the handler nvidia"):
        converge(host, name="cri-o", **change)
    assert host.own_files() == there
    del host.files["/proc/500/cmdline"]
    converge(host, name="cri-o", **change)


def test_process_of_a_container_passes_for_no_monitor() -> None:
    """It calls itself conmon, to keep the node's default runtime from being changed."""
    host = packaged()
    host.commands["runc",] = host.commands["crun",] = ""
    host.links |= {"/proc/1/ns/pid": "pid:[1]", "/proc/500/ns/pid": "pid:[2]"}
    start(host, 500, ID, CRUN)
    converge(host, name="cri-o", mode="default_runtime")


def test_monitors_count_if_the_nodes_namespace_cannot_be_read() -> None:
    """As for a root without some capability that the first process has."""
    host = packaged()
    host.commands["runc",] = host.commands["crun",] = ""
    host.links |= {"/proc/500/ns/pid": "pid:[2]"}
    start(host, 500, ID, CRUN)
    with pytest.raises(NodeError, match="would lose"):
        converge(host, name="cri-o", mode="default_runtime")


def test_loss_is_the_users_choice_by_restart_always() -> None:
    host = packaged()
    host.commands["runc",] = host.commands["crun",] = ""
    start(host, 500, ID, "/usr/libexec/crio/crun")
    converge(host, name="cri-o", mode="default_runtime", restart="always")
    assert tomllib.loads(host.files[CRIO])["crio"]["runtime"]["default_runtime"] == "nvidia"


MAIN = "/etc/crio/crio.conf"
POLICY = "/etc/crio/policy.json"


@pytest.mark.parametrize("mode", ["cdi", "runtime_class"])
def test_main_file_is_edited_where_it_is_named(mode: str) -> None:
    """What else is in its folder, such as upstream's policy, is no configuration."""
    host = packaged(**{MAIN: "[crio.image]\n", POLICY: "{}"})
    before = host.own_files()
    params = {"name": "cri-o", "mode": mode, "config_path": MAIN, "spec_dirs": ["/opt/cdi"]}
    converge(host, **params)
    assert tomllib.loads(host.files[MAIN])["crio"]["runtime"]["cdi_spec_dirs"][-1] == "/opt/cdi"
    assert CRIO not in host.files
    assert converge(host, **params) == []
    converge(host, name="cri-o", state="absent", config_path=MAIN)
    assert host.own_files() == before


def test_file_that_crio_does_not_read_is_refused_by_name() -> None:
    host = packaged()
    with pytest.raises(InputError, match=rf"config_path: '/srv/x'.*expected {MAIN}, or a file in "):
        converge(host, name="cri-o", config_path="/srv/x")


def test_another_handler_in_the_place_of_ours_leaves_a_file_that_can_be_edited() -> None:
    """Tables that ours alone has made are not another one's, whoever comes first."""
    host = packaged()
    before = host.own_files()
    folders = ["/etc/cdi", "/var/run/cdi", "/opt/cdi"]
    converge(host, name="cri-o", spec_dirs=[*folders, "/srv/cdi"])
    converge(host, name="cri-o", mode="runtime_class")
    converge(host, name="cri-o", mode="runtime_class", handler="other")
    converge(host, name="cri-o", mode="runtime_class", spec_dirs=folders)
    assert entry(host)["runtime_path"] == WRAPPER
    # Back from a file that somebody has edited since.
    host.files[CRIO] += "\n# a note\n"
    converge(host, name="cri-o", state="absent")
    assert host.files.pop(CRIO).strip() == "# a note"
    assert host.own_files() == before
