# SPDX-License-Identifier: Apache-2.0
"""What compression does to the averages of a training while it runs."""
