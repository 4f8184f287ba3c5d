# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims: what they were given on this node, and what is done for them and undone."""
