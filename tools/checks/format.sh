#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checks the layout of C++ files (clang-format) or of BUILD and .bzl files
# (buildifier), or with --fix puts it right.
#
# Usage: tools/checks/format.sh clang-format|buildifier [--fix]

set -eu
cd "$(dirname "$0")/../.."

# Its lint also finds rules that are used without load(). The stand-ins under
# third_party/ are exempt from that: they are made of Bazel 4's own rules.
buildifier=@bazel/buildifier@8.2.1

# Lists tracked and new files that match any of the patterns.
list() {
  git ls-files -z -c -o --exclude-standard -- "$@"
}

list_bazel() {
  list '*.bazel' '*.bzl' '*WORKSPACE' "$@"
}

case "$*" in
  clang-format) list '*.h' '*.cc' | xargs -0 clang-format --dry-run -Werror ;;
  "clang-format --fix") list '*.h' '*.cc' | xargs -0 clang-format -i ;;
  buildifier)
    list_bazel ':!third_party' |
      xargs -0 npx --yes "$buildifier" -mode=check -lint=warn
    list 'third_party/*.bazel' 'third_party/*.bzl' |
      xargs -0 npx --yes "$buildifier" -mode=check -lint=off
    ;;
  "buildifier --fix")
    list_bazel | xargs -0 npx --yes "$buildifier" -mode=fix -lint=off
    ;;
  *)
    echo "usage: $0 clang-format|buildifier [--fix]"
    exit 2
    ;;
esac
