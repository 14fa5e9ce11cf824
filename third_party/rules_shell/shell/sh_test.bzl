# SPDX-License-Identifier: Apache-2.0
"""The native sh_test of Bazel 4, under the load path of rules_shell."""

sh_test = native.sh_test
