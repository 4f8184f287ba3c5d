# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of CRI-O: the one of upstream's packages, and one of a site."""

from __future__ import annotations

CONMON, CRUN, RUNC = (f"/usr/libexec/crio/{name}" for name in ("conmon", "crun", "runc"))
PACKAGE = "/etc/crio/crio.conf.d/10-crio.conf"
# As in upstream's packages (cri-o/packaging, 10-crio.conf).
PACKAGED = """\
[crio.image]
signature_policy = "/etc/crio/policy.json"

[crio.runtime]
default_runtime = "crun"

[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
monitor_env = ["PATH=/usr/bin"]
allowed_annotations = [
    "io.containers.trace-syscall",
]

[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/libexec/crio/conmon"
"""
SITE = """\
[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
container_min_memory = "20MiB"
container_create_timeout = 600
seccomp_profile = "/etc/crio/seccomp-node.json"
default_annotations = { "site.example/class" = "gpu" }
platform_runtime_paths = { "linux/arm64" = "/usr/bin/crun" }
"""
# What CRI-O 1.36.3 prints as its own default.
BUILT_IN = """\
[crio.runtime]
default_runtime = "crun"

[crio.runtime.runtimes.crun]
runtime_path = ""
runtime_type = "oci"
runtime_root = "/run/crun"
inherit_default_runtime = false
runtime_config_path = ""
container_min_memory = "500KiB"
monitor_path = ""
monitor_cgroup = "system.slice"
monitor_exec_cgroup = ""
monitor_env = [
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
]
allowed_annotations = [
	"io.containers.trace-syscall",
	"devices.crio.io",
]
privileged_without_host_devices = false
"""
