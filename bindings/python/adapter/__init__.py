# SPDX-License-Identifier: Apache-2.0
"""The code that all adapters share: tensor lists, collectives, options, objects. It imports no framework."""
