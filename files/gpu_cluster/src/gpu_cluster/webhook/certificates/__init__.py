# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The serving certificate: of files that somebody else renews, or made and renewed here."""
