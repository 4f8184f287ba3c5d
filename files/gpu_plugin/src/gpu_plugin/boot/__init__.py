# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What runs at boot: the MIG layout, and the CDI specification."""
