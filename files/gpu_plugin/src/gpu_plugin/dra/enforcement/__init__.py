# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The limits of shares of GPUs, and their enforcement: by MPS, cgroups, HAMi-core, or none."""
