# SPDX-License-Identifier: Apache-2.0
"""The native sh_binary of Bazel 4, under the load path of rules_shell."""

sh_binary = native.sh_binary
