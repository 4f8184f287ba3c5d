# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's resources, annotations and configuration, and the claims that stand for them. Pure."""
