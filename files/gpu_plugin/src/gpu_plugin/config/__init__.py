# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration: file, environment and flags become one typed value, or an error with its line."""
