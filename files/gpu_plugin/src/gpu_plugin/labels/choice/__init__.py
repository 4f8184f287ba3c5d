# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a label of the node chooses, besides the configuration of the plugin."""
