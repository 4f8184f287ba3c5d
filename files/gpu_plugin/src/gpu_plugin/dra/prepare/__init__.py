# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims: their devices on this node, and how they are prepared and unprepared."""
