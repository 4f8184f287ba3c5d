# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in kubelet: the device manager of v1beta1, without pods behind it."""
