# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tools of all processes: logs, files that are replaced whole, states, back-off, chores."""
