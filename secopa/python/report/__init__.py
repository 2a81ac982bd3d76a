# SPDX-License-Identifier: Apache-2.0
"""One page about a run: what its trace shows, beside what its plan said and what its profile knew."""
