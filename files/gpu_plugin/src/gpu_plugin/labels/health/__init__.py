# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the cluster is told of GPUs that are unhealthy: Events of the node, and a condition of it."""
