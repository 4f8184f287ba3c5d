# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP (pages, probes, endpoint), and the commands that show devices and their users."""
