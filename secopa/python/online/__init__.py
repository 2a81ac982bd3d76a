# SPDX-License-Identifier: Apache-2.0
"""Planning during a training: measuring, agreeing on a plan, and planning again when the duration of steps changes."""
