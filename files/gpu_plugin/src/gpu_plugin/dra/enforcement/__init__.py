# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What shares of GPUs may use, and who sees to it: MPS, cgroups, HAMi-core, or nobody."""
