# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reports of unhealthy GPUs to the cluster: Events of the node, and a condition of it."""
