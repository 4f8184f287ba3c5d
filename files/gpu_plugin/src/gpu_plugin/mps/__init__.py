# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MPS: one control daemon for each shared GPU or MIG device, and what its clients need."""
