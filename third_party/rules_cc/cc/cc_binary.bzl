# SPDX-License-Identifier: Apache-2.0
"""The native cc_binary of Bazel 4, under the load path of rules_cc."""

cc_binary = native.cc_binary
