# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet's API for the health of claims' devices, v1alpha1: messages (api_pb2) and method paths (rpc)."""
