# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Kubernetes device plugin for NVIDIA GPUs that runs on the host, without a container."""

__version__ = "0.2.0-dev"
