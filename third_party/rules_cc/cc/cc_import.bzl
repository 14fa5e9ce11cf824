# SPDX-License-Identifier: Apache-2.0
"""The native cc_import of Bazel 4, under the load path of rules_cc."""

cc_import = native.cc_import
