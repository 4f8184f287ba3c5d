# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that change the node for its GPUs: MIG layout, settings and CDI specification, at boot and by a label."""
