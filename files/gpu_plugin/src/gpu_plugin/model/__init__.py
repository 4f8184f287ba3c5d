# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values that all rooms share: GPUs, their problems and connections, and devices. Pure."""
