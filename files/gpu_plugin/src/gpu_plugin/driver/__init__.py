# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver says: scans, health, XIDs, connections; and the time slices that it is told."""
