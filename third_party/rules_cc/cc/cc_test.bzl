# SPDX-License-Identifier: Apache-2.0
"""The native cc_test of Bazel 4, under the load path of rules_cc."""

cc_test = native.cc_test
