# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine containerd: files that strangers have, edited, verified and given back."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.runtime.genuine_runtimes import (
    CONF_D,
    CONFIG,
    NEWEST,
    OLDER,
    OLDEST,
    WRAPPER,
    GenuineRuntimes,
    capability,
    converge,
    every_suite,
    planned,
    with_cdi,
)

Make = Callable[..., GenuineRuntimes]
OLD = "io.containerd.grpc.v1.cri"
NEW = "io.containerd.cri.v1.runtime"
NVIDIAS = f"{CONF_D}/99-nvidia.toml"
IMPORTS = f'imports = ["{CONF_D}/*.toml"]\n'


@every_suite
@pytest.mark.parametrize("text", ["", "\n", "# a comment\n", '#disabled_plugins = ["cri"]'])
def test_file_without_keys_gets_its_version(machine: Make, suite: str, text: str) -> None:
    node = machine(suite, {CONFIG: text})
    node.install_toolkit()
    before = node.files()
    assert converge(node, mode="runtime_class") != []
    assert node.runtime("nvidia")["options"]["BinaryName"] == WRAPPER
    made = node.files()[CONFIG]
    assert tomllib.loads(made)["version"] == (3 if suite == NEWEST else 2)
    assert text.strip() in made
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


@with_cdi
def test_cdi_for_a_file_of_comments_that_somebody_edits_later(machine: Make, suite: str) -> None:
    node = machine(suite, {CONFIG: "# a comment\n"})
    converge(node)
    assert node.cri()["enable_cdi"] is True
    node.put(CONFIG, node.files().get(CONFIG, "") + "# another\n")
    converge(node, state="absent")
    left = node.files()[CONFIG]
    assert tomllib.loads(left) == {}
    assert "# a comment\n" in left
    assert "# another\n" in left


@every_suite
@pytest.mark.parametrize("link", [False, True])
def test_no_file_or_a_dangling_link(machine: Make, suite: str, link: bool) -> None:
    node = machine(suite)
    node.install_toolkit()
    if link:
        node.symlink("real.toml", CONFIG)
    before = node.files()
    assert len(converge(node, mode="runtime_class")) == 1
    assert node.runtime("nvidia")["options"]["BinaryName"] == WRAPPER
    assert "runc" in node.cri()["containerd"]["runtimes"]
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


DISABLED = {
    OLDEST: [f'version = 2\ndisabled_plugins = ["{OLD}"]\n', 'disabled_plugins = ["cri"]\n'],
    OLDER: [f'version = 2\ndisabled_plugins = ["{OLD}"]\n', 'disabled_plugins = ["cri"]\n'],
    NEWEST: [
        f'version = 2\ndisabled_plugins = ["{OLD}"]\n',
        f'version = 3\ndisabled_plugins = ["{OLD}"]\n',
        f'version = 3\ndisabled_plugins = ["{NEW}"]\n',
        'disabled_plugins = ["cri"]\n',
    ],
}


@every_suite
def test_disabled_cri_is_seen_however_it_is_spelled(machine: Make, suite: str) -> None:
    said = r"disables the CRI plugin.*Next step: .*disabled_plugins"
    for text in DISABLED[suite]:
        node = machine(suite, {CONFIG: text})
        node.install_toolkit()
        before = node.files()
        with pytest.raises(NodeError, match=said):
            planned(node, mode="runtime_class")
        assert converge(node, state="absent") == []
        assert node.files() == before


@with_cdi
def test_auto_leaves_dockers_containerd_alone(machine: Make, suite: str) -> None:
    for text in DISABLED[suite]:
        node = machine(suite, {CONFIG: text})
        node.install_docker()
        steps = converge(node, name="auto")
        assert [one for one in steps if "containerd" in one] == []
        assert node.files()[CONFIG] == text
        assert [one for one in planned(node, name="auto").warnings if "containerd" in one] == []


def test_cri_that_an_import_disables(machine: Make) -> None:
    more = f'version = 2\ndisabled_plugins = ["{OLD}"]\n'
    node = machine(OLDER, {CONFIG: "version = 2\n" + IMPORTS, f"{CONF_D}/x.toml": more})
    with pytest.raises(NodeError, match="disables the CRI plugin"):
        planned(node)


MORE = "/etc/containerd/more.toml"


def off(section: str, version: int) -> str:
    return f'version = {version}\n[plugins."{section}"]\nenable_cdi = false\n'


def remembered(node: GenuineRuntimes) -> list[str | None]:
    return [node.read(f"/{one}/gpu-node/container_runtime.json") for one in ("var/lib", "run")]


def test_what_would_not_be_in_effect_is_found_on_the_trial(machine: Make) -> None:
    main = f'version = 3\nimports = ["{MORE}"]\n'
    node = machine(NEWEST, {CONFIG: main, MORE: off(NEW, 3)})
    before = node.files()
    with pytest.raises(NodeError, match=r"would still not have enable_cdi = true.*more\.toml sets"):
        planned(node)
    assert node.files() == before
    assert remembered(node) == [None, None]


@with_cdi
def test_what_is_found_wrong_after_the_write_is_undone(machine: Make, suite: str) -> None:
    section, version = (OLD, 2) if suite == OLDER else (NEW, 3)
    main = f'version = {version}\nimports = ["{CONF_D}/*"]\n' + off(section, version)[12:]
    node = machine(suite, {CONFIG: main})
    node.makedirs(CONF_D)
    node.then = lambda: node.put(f"{CONF_D}/theirs", off(section, version))
    one = capability(node)
    (step,) = one.plan(one.observe()).steps
    with pytest.raises(NodeError, match="did not take enable_cdi = true") as caught:
        one.apply(step)
    assert caught.value.details.get("changed") is None
    assert node.files() == {CONFIG: main, f"{CONF_D}/theirs": off(section, version)}
    assert remembered(node) == [None, None]


@with_cdi
def test_refusal_names_the_file_and_not_the_trial(machine: Make, suite: str) -> None:
    node = machine(suite, {CONFIG: "version = 2\nroot = 3\n"})
    with pytest.raises(NodeError) as caught:
        planned(node, spec_dirs=["/opt/cdi"])
    assert CONFIG in str(caught.value)
    assert "trial" not in str(caught.value)


CTK_1_7 = f"""\
version = 2
[plugins]
  [plugins."{OLD}"]
    [plugins."{OLD}".containerd]
      [plugins."{OLD}".containerd.runtimes]
        [plugins."{OLD}".containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"
          [plugins."{OLD}".containerd.runtimes.nvidia.options]
            BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""
CTK_2_1 = CTK_1_7.replace("version = 2", "version = 3").replace(OLD, NEW)


def test_ours_has_the_last_word_beside_nvidias_file(machine: Make) -> None:
    node = machine(NEWEST, {CONFIG: "version = 3\n" + IMPORTS, NVIDIAS: CTK_2_1})
    node.install_toolkit()
    before = node.files()
    assert len(converge(node, mode="runtime_class")) == 1
    assert node.runtime("nvidia")["options"]["BinaryName"] == WRAPPER
    assert set(node.files()) == {*before, f"{CONF_D}/zz-gpu-node.toml"}
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


def test_file_of_an_earlier_release_is_moved(machine: Make) -> None:
    node = machine(NEWEST, {CONFIG: "version = 3\n" + IMPORTS})
    node.install_toolkit()
    before = node.files()
    converge(node, mode="runtime_class")
    # An earlier release wrote the same under another name.
    new, old = f"{CONF_D}/zz-gpu-node.toml", f"{CONF_D}/99-gpu-node.toml"
    record = node.read("/var/lib/gpu-node/container_runtime.json") or ""
    node.put("/var/lib/gpu-node/container_runtime.json", record.replace(new, old))
    text = node.files()[new]
    node.put(old, text)
    node.remove(new)
    steps = converge(node, mode="runtime_class")
    assert len(steps) == 2
    assert f"remove {old}" in steps
    assert tomllib.loads(node.files()[new]) == tomllib.loads(text)
    assert old not in node.files()
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


def test_file_that_sorts_after_ours_is_named(machine: Make) -> None:
    last = f"{CONF_D}/zzz.toml"
    node = machine(NEWEST, {CONFIG: "version = 3\n" + IMPORTS, last: CTK_2_1})
    node.install_toolkit()
    before = node.files()
    with pytest.raises(NodeError, match=r"would still not have BinaryName.*zzz\.toml"):
        converge(node, mode="runtime_class")
    assert node.files() == before


def test_containerd_1_is_edited_where_the_section_counts(machine: Make) -> None:
    main = f'version = 2\n{IMPORTS}[plugins."{OLD}"]\nsandbox_image = "pause:9"\n'
    node = machine(OLDER, {CONFIG: main, NVIDIAS: CTK_1_7})
    node.install_toolkit()
    before = node.files()
    converge(node, mode="cdi")
    assert node.cri()["enable_cdi"] is True
    assert node.files()[CONFIG] == main
    assert node.cri()["containerd"]["runtimes"]["nvidia"]["options"]["BinaryName"] != WRAPPER
    converge(node, mode="runtime_class")
    assert node.runtime("nvidia")["options"]["BinaryName"] == WRAPPER
    converge(node, state="absent")
    assert node.files() == before


@every_suite
def test_complete_handler_needs_nothing(machine: Make, suite: str) -> None:
    section, version = (NEW, 3) if suite == NEWEST else (OLD, 2)
    at = f'plugins."{section}".containerd.runtimes'
    text = (
        f'version = {version}\n[plugins."{section}"]\nenable_cdi = true\n'
        f'[{at}.runc]\nruntime_type = "io.containerd.runc.v2"\n'
        f"[{at}.runc.options]\nSystemdCgroup = true\n"
        f'[{at}.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
        f'[{at}.nvidia.options]\nBinaryName = "{WRAPPER}"\nSystemdCgroup = true\n'
    )
    text = text.replace("enable_cdi = true\n", "") if suite == OLDEST else text
    node = machine(suite, {CONFIG: text})
    node.install_toolkit()
    assert converge(node, mode="runtime_class") == []
    node.put(CONFIG, text.replace("[plugins", IMPORTS + "[plugins", 1))
    assert converge(node, mode="runtime_class") == []


CRUN = """\
version = {version}
[plugins."{section}".containerd]
default_runtime_name = "{name}"
[plugins."{section}".containerd.runtimes.{name}]
runtime_type = "{kind}"
[plugins."{section}".containerd.runtimes.{name}.options]
SystemdCgroup = true
BinaryName = "/usr/bin/crun"
"""


@every_suite
@pytest.mark.parametrize("mode", ["runtime_class", "default_runtime"])
def test_handler_is_like_the_default_runtime(machine: Make, suite: str, mode: str) -> None:
    section, version = (NEW, 3) if suite == NEWEST else (OLD, 2)
    values = {"section": section, "version": version}
    node = machine(
        suite, {CONFIG: CRUN.format(name="crun", kind="io.containerd.runc.v2", **values)}
    )
    node.install_toolkit()
    before = node.files()
    converge(node, mode=mode)
    assert node.runtime("nvidia")["options"] == {"BinaryName": WRAPPER, "SystemdCgroup": True}
    assert converge(node, mode=mode) == []
    converge(node, mode="default_runtime" if mode == "runtime_class" else "runtime_class")
    assert node.runtime("nvidia")["options"] == {"BinaryName": WRAPPER, "SystemdCgroup": True}
    converge(node, state="absent")
    assert node.files() == before


@every_suite
def test_nothing_is_taken_from_a_runtime_of_another_kind(machine: Make, suite: str) -> None:
    section, version = (NEW, 3) if suite == NEWEST else (OLD, 2)
    values = {"section": section, "version": version}
    text = CRUN.format(name="kata", kind="io.containerd.kata.v2", **values)
    node = machine(suite, {CONFIG: text.replace("SystemdCgroup = true\n", "ConfigPath = '/k'\n")})
    node.install_toolkit()
    converge(node, mode="runtime_class")
    assert node.runtime("nvidia")["runtime_type"] == "io.containerd.runc.v2"
    assert "ConfigPath" not in node.runtime("nvidia")["options"]


@every_suite
@pytest.mark.parametrize("text", [None, ""])
def test_another_path_is_not_answered_from_the_usual_one(
    machine: Make, suite: str, text: str | None
) -> None:
    section, version = (NEW, 3) if suite == NEWEST else (OLD, 2)
    at = f'plugins."{section}".containerd.runtimes.nvidia'
    usual = (
        f'version = {version}\n[plugins."{section}"]\n[{at}]\n'
        f'runtime_type = "io.containerd.runc.v2"\n[{at}.options]\nBinaryName = "{WRAPPER}"\n'
    )
    path = "/etc/other/config.toml"
    node = machine(suite, {CONFIG: usual, **({} if text is None else {path: text})})
    node.install_toolkit()
    before = node.files()
    assert converge(node, mode="runtime_class", config_path=path) != []
    runtimes = node.cri(path)["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"]["BinaryName"] == WRAPPER
    assert node.files()[CONFIG] == usual
    converge(node, state="absent", config_path=path)
    assert node.files() == before


@with_cdi
def test_a_plugin_that_is_disabled_by_an_old_name_gets_a_next_step(
    machine: Make, suite: str
) -> None:
    text = 'version = 2\ndisabled_plugins = ["cri"]\n'
    node = machine(suite, {CONFIG: text})
    with pytest.raises(
        NodeError, match=f"containerd refuses {CONFIG}: .*disabled plugin"
    ) as caught:
        planned(node)
    assert f'remove "cri" from disabled_plugins of {CONFIG}' in caught.value.hint
    assert "name the runtime that the kubelet uses" in caught.value.hint


def test_folder_that_was_made_for_a_file_goes_with_it(machine: Make) -> None:
    imports = f'version = 3\nimports = ["{CONF_D}/*.toml"]\n[plugins."{NEW}"]\nenable_cdi = false\n'
    node = machine(NEWEST, {CONFIG: imports})
    folder = node.root / CONF_D[1:]
    converge(node)
    assert [path.name for path in folder.iterdir()] == ["zz-gpu-node.toml"]
    converge(node, spec_dirs=["/opt/cdi"])
    converge(node, state="absent")
    assert not folder.exists()
    folder.mkdir()
    for state in ("present", "absent"):
        converge(node, state=state)
    assert folder.is_dir()  # it is the site's
    folder.rmdir()
    converge(node)
    node.put(f"{CONF_D}/50-site.toml", "version = 3\n")
    converge(node, state="absent")
    assert [path.name for path in folder.iterdir()] == ["50-site.toml"]
