# SPDX-License-Identifier: Apache-2.0
"""The native cc_library of Bazel 4, under the load path of rules_cc."""

cc_library = native.cc_library
