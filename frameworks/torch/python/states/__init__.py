# SPDX-License-Identifier: Apache-2.0
"""What a rank keeps, saved through torch.distributed.checkpoint."""
