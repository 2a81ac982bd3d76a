# SPDX-License-Identifier: Apache-2.0
"""From the typed IR to a plan of few loops over memory, the same for every target. May know ir/."""
