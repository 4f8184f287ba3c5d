# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Access to the Kubernetes API: kubeconfig, requests, rate and watches."""
