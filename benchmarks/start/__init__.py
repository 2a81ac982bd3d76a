# SPDX-License-Identifier: Apache-2.0
"""What the start of a job costs."""
