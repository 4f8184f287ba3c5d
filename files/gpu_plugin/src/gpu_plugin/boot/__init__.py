# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What changes the node for its GPUs: their MIG layout and CDI specification, at boot and when a label asks."""
