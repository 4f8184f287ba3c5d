# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every key, flag and variable of NVIDIA's plugin: it works, or is refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
import yaml
from gpu_plugin.cli import _parser
from gpu_plugin.config.configuration import KEYS, Config, parse
from gpu_plugin.config.sources import flags_given
from gpu_plugin.config.strict_yaml import ConfigError

from tests.support.refusals import refused_otherwise


@dataclass(frozen=True)
class Row:
    """A setting that works: how it is given, a value that is no default, and what it becomes."""

    path: str
    flags: tuple[str, ...]
    env: tuple[str, ...]
    text: str
    field: str
    becomes: Any
    default: Any
    data: Any = None  # the value in a file, where it is not the text


ROWS = (
    Row("flags.migStrategy", ("--mig-strategy",), ("MIG_STRATEGY",), "single", "mig_strategy",
        "single", "none"),
    Row("flags.failOnInitError", ("--fail-on-init-error",), ("FAIL_ON_INIT_ERROR",), "true",
        "driver.fail_on_init_error", True, False, True),
    Row("flags.nvidiaDriverRoot", ("--driver-root", "--nvidia-driver-root"),
        ("NVIDIA_DRIVER_ROOT",), "/run/nvidia/driver", "driver.root", "/run/nvidia/driver", "/"),
    Row("flags.nvidiaDevRoot", ("--dev-root", "--nvidia-dev-root"), ("NVIDIA_DEV_ROOT",),
        "/run/nvidia", "driver.dev_root", "/run/nvidia", "/"),
    Row("flags.gdrcopyEnabled", ("--gdrcopy-enabled",), ("GDRCOPY_ENABLED",), "true", "containers.gdrcopy",
        True, False, True),
    Row("flags.gdsEnabled", ("--gds-enabled",), ("GDS_ENABLED",), "true", "containers.gds", True, False, True),
    Row("flags.mofedEnabled", ("--mofed-enabled",), ("MOFED_ENABLED",), "true", "containers.mofed", True,
        False, True),
    Row("flags.plugin.passDeviceSpecs", ("--pass-device-specs",), ("PASS_DEVICE_SPECS",), "true",
        "containers.pass_device_specs", True, False, True),
    Row("flags.plugin.deviceListStrategy", ("--device-list-strategy",), ("DEVICE_LIST_STRATEGY",),
        "volume-mounts,cdi-cri", "containers.device_list_strategies", ("volume-mounts", "cdi-cri"),
        ("envvar",), ["volume-mounts", "cdi-cri"]),
    Row("flags.plugin.deviceIDStrategy", ("--device-id-strategy",), ("DEVICE_ID_STRATEGY",),
        "index", "containers.device_id_strategy", "index", "uuid"),
    Row("flags.plugin.cdiAnnotationPrefix", ("--cdi-annotation-prefix",),
        ("CDI_ANNOTATION_PREFIX",), "x.y/", "containers.cdi_annotation_prefix", "x.y/", "cdi.k8s.io/"),
    Row("flags.plugin.nvidiaCTKPath", ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        ("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"), "/opt/nvidia-cdi-hook", "containers.cdi_hook_program",
        "/opt/nvidia-cdi-hook", "/usr/bin/nvidia-ctk"),
    Row("flags.plugin.containerDriverRoot", ("--driver-root-ctr-path", "--container-driver-root"),
        ("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"), "/driver", "driver.container_root",
        "/driver", "/driver-root"),
    Row("flags.plugin.sharedDevicesAllocationPolicy", ("--shared-devices-allocation-policy",),
        ("SHARED_DEVICES_ALLOCATION_POLICY",), "packed", "sharing.allocation_policy", "packed",
        "distributed"),
    Row("imex.channelIDs", ("--imex-channel-ids",), ("IMEX_CHANNEL_IDS",), "0", "containers.imex_channels",
        ("0",), (), [0]),
    Row("imex.required", ("--imex-required",), ("IMEX_REQUIRED",), "true", "containers.imex_required", True,
        False, True),
    Row("", ("--cdi-disable-hooks",), ("CDI_DISABLE_HOOKS",), "all,update-ldcache",
        "containers.cdi_disabled_hooks", ("all", "update-ldcache"), ()),
)  # fmt: skip
# What asks for what is so anyway: the configuration is that of an empty file.
HARMLESS = (
    ("version", "v1"),
    ("flags.deviceDiscoveryStrategy", "auto"),
    ("flags.deviceDiscoveryStrategy", "nvml"),
    ("--cdi-feature-flags", "disable-nvsandboxutils"),
    ("--cdi-feature-flags", "disable-nvsandbox-utils"),
)
REFUSED = (
    ("flags.deviceDiscoveryStrategy", "tegra", "through NVML alone"),
    ("flags.deviceDiscoveryStrategy", "vfio", "through NVML alone"),
    ("--cdi-feature-flags", "enable-coherent-annotations", "made by gpu.node.cdi"),
    ("--cdi-feature-flags", "enable-explicit-driver-libraries", "made by gpu.node.cdi"),
    ("--cdi-feature-flags", "something-new", "expected one or more of disable-nvsandbox-utils"),
)
IN_FILE = {key.path for key in KEYS if key.in_file}
# Settings of parts that have pages and tests of their own. Here it is seen that each can be given everywhere,
# with a text that is no default; of those that are not named, that is a path.
ELSEWHERE = ("flags.mpsRoot", "flags.useNodeFeatureAPI", "flags.gfd.", "gpuNode.")
TEXTS = {
    "gpuNode.nvmlTimeout": "90s",
    "flags.gfd.sleepInterval": "17s",
    "flags.gfd.oneshot": "true",
    "flags.gfd.noTimestamp": "true",
    "flags.useNodeFeatureAPI": "true",
    "gpuNode.metricsAddress": "127.0.0.1:9000",
}
OTHERS = [key for key in KEYS if key.path.startswith(ELSEWHERE)]


def file(path: str, value: Any) -> str:
    """The text of a file with one key."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return yaml.safe_dump(value)


def with_flag(flag: str, text: str) -> Config:
    options = _parser().parse_args(["run", f"{flag}={text}"])
    return parse("", flags=flags_given(options))


def test_a_setting_works_from_file_environment_and_flags() -> None:
    for row in ROWS:
        assert attrgetter(row.field)(parse("")) == row.default
        found = [parse("", env={name: row.text}) for name in row.env]
        found += [with_flag(name, row.text) for name in row.flags]
        if row.path:
            found.append(parse(file(row.path, row.text if row.data is None else row.data)))
        assert [attrgetter(row.field)(one) for one in found] == [row.becomes] * len(found), row


def test_an_empty_variable_asks_for_nothing() -> None:
    for row in ROWS:
        assert not row.path or parse("", env=dict.fromkeys(row.env, "")) == Config(), row


def test_the_first_of_two_variables_counts() -> None:
    for row in (row for row in ROWS if len(row.env) > 1):
        found = parse("", env={row.env[0]: "/first", row.env[1]: "/second"})
        assert attrgetter(row.field)(found) == "/first", row


def give(setting: tuple[str, str]) -> Config:
    name, value = setting
    return parse(file(name, value)) if name in IN_FILE else with_flag(name, value)


def test_what_is_so_anyway_may_be_asked_for() -> None:
    assert [one for one in HARMLESS if give(one) != Config()] == []


def test_what_can_not_be_had_is_refused_with_the_reason() -> None:
    cases = (((name, value), (value, why)) for name, value, why in REFUSED)
    assert refused_otherwise(give, cases, ConfigError) == []


def test_a_key_of_another_part_is_the_same_from_everywhere() -> None:
    for key in OTHERS:
        text = TEXTS.get(key.path, "/elsewhere")
        found = [parse(file(key.path, text == "true" or text))]
        found += [parse("", env={name: text}) for name in key.variables]
        command = "labels" if key.path.startswith(("flags.gfd.", "flags.useNode")) else "run"
        for flag in key.flags:
            options = _parser().parse_args([command, f"{flag}={text}"])
            found.append(parse("", flags=flags_given(options)))
        assert len(found) > 1, key
        assert found[0] != Config(), key
        assert found == [found[0]] * len(found), key


def test_no_key_is_left_out_here() -> None:
    told = {row.path or row.flags[0] for row in ROWS} | {name for name, _value in HARMLESS}
    assert {key.path for key in KEYS if not key.path.startswith(ELSEWHERE)} == told


def test_the_kubelets_socket_is_given_by_flag_or_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def path(*words: str) -> str:
        return str(_parser().parse_args(["run", *words]).kubelet_socket)

    monkeypatch.setenv("KUBELET_SOCKET", "")
    assert path() == "/var/lib/kubelet/device-plugins/kubelet.sock"
    monkeypatch.setenv("KUBELET_SOCKET", "/srv/kubelet/kubelet.sock")
    assert path() == "/srv/kubelet/kubelet.sock"
    assert path("--kubelet-socket", "/var/kubelet.sock") == "/var/kubelet.sock"


def test_a_relative_path_of_a_socket_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("", "kubelet.sock"):
        with pytest.raises(SystemExit):
            _parser().parse_args(["run", "--kubelet-socket", text])
        said = " ".join(capsys.readouterr().err.split())
        assert f"{text!r} is not valid: expected an absolute path" in said
        assert "is not supported" in said
