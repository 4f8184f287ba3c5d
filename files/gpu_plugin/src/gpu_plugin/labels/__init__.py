# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels that name a node's GPUs, and the configuration that a label chooses."""
