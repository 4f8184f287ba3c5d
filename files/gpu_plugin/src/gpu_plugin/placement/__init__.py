# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices the allocator of Kubernetes 1.36 would give to claims, and why it gives none. Pure."""
