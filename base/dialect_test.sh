#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles dialect.h as C++17, where it must name the flag to set, and as C++20,
# where it must say nothing.

set -u
header=$1
compiler=${CXX:-c++}

fail() {
  echo "FAILED: $*"
  exit 1
}

if message=$("$compiler" -x c++ -std=c++17 -fsyntax-only "$header" 2>&1); then
  fail "$header compiled as C++17"
fi
case $message in
  *"--cxxopt=-std=c++20"*) ;;
  *) fail "the error does not name the flag: $message" ;;
esac

message=$("$compiler" -x c++ -std=c++20 -fsyntax-only "$header" 2>&1) ||
  fail "$header does not compile as C++20: $message"
