# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods would run on which nodes, and why others would stay pending, without a cluster being changed."""
