# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP: pages (what), probes (how it is), endpoint (where); and who has which device."""
