# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels that tell a cluster what GPUs a node has, and the configuration that a label chooses."""
