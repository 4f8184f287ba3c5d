# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices the allocators of Kubernetes' versions would give to claims, and why it gives none. Pure."""
