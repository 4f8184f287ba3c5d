# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The programs of the cluster or a desk, and of no node: the webhook for HAMi's users, and the simulation."""

__version__ = "0.2.0-dev"
