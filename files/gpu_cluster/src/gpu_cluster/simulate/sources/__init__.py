# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where nodes and pods come from: manifests, an inventory file, ResourceSlices, a cluster."""
