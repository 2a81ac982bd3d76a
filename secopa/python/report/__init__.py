# SPDX-License-Identifier: Apache-2.0
"""`hipress report`: a page about a job, from its trace and, if given, its plan and its profile."""
