# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Code shared with the collection, linked file by file from plugins/module_utils."""
