# SPDX-License-Identifier: Apache-2.0
"""The native sh_library of Bazel 4, under the load path of rules_shell."""

sh_library = native.sh_library
