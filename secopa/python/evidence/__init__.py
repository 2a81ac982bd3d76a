# SPDX-License-Identifier: Apache-2.0
"""What trainings have shown of codecs: which of them are cleared for which kind of optimizer. `codec="auto"` takes
cleared ones only."""
