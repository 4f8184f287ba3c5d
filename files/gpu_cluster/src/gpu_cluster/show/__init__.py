# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects to try on a cluster without nodes: what the webhook makes of manifests, and what nodes would publish."""
