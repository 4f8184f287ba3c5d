# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The serving certificate: from files that others renew, or made and renewed here."""
