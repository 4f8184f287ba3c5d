# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manager of one device: it runs the control daemon and keeps its limits in place."""
