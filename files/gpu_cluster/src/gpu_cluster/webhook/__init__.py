# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The webhook that lets pods of HAMi's users run with claims: HTTPS, certificates, templates and their end."""
