# SPDX-License-Identifier: Apache-2.0
"""From a plan to the text of a target, cpu/ or cuda/; what targets share lies here. May know passes/ and ir/."""
