# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver: scans, health, XIDs, connections, and the time slices that are set."""
