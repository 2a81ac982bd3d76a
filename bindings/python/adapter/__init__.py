# SPDX-License-Identifier: Apache-2.0
"""What the adapters of all frameworks share: tensor lists, collectives, options, objects. It knows no framework."""
