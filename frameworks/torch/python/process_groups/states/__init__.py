# SPDX-License-Identifier: Apache-2.0
"""What codecs remember of an average over a process group from step to step."""
