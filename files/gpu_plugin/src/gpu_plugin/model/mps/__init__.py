# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a device is shared by MPS, and where the files of its daemon are. Values only."""
