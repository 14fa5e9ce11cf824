#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs bazelw where every program that it calls is a fake that notes the call.

set -u
bazelw=$PWD/$1
work=$TEST_TMPDIR/bazelw_test
calls=$work/calls
failures=0

# fake NAME [BODY]: a program that notes its name and arguments.
fake() {
  printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$calls" "${2:-}" \
    >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# A Debian 12 on which everything is installed.
begin() {
  case_name=$1
  rm -rf "$work"
  mkdir -p "$work/bin" "$work/etc" "$work/usr/include/boost"
  : >"$calls"
  : >"$work/usr/include/boost/asio.hpp"
  printf 'ID=debian\nVERSION_ID="12"\n' >"$work/etc/os-release"
  ln -s "$(command -v env)" "$work/bin/env"
  fake bazel 'exit 7'
  fake apt-get
  fake id 'echo 0'
  fake protoc
  fake python3
  fake dpkg-query 'printf installed'
}

# As if the package $1 were not installed.
without() {
  fake dpkg-query "case \"\$*\" in *\" $1\") exit 1 ;; *) printf installed ;; esac"
}

run() {
  output=$(PATH="$work/bin" SHOAL_TEST_ROOT="$work" "$bazelw" test //x 2>&1)
  status=$?
}

check() {
  if ! "$@"; then
    echo "FAILED: $case_name: $*"
    echo "  exit code $status, output: $output"
    echo "  calls:"
    grep -v dpkg-query "$calls"
    failures=$((failures + 1))
  fi
}
called() { grep -q -x -e "$1" "$calls"; }
not_called() { ! grep -q -e "$1" "$calls"; }
said() { case $output in *"$1"*) ;; *) return 1 ;; esac; }
ended_with() { [ "$status" = "$1" ]; }

begin "all is there: Bazel runs, with the arguments and exit code passed on"
run
check called "bazel test //x"
check ended_with 7
check not_called apt-get

begin "a package is missing: it alone is installed, and Bazel runs"
without libabsl-dev
run
check called "apt-get update -q"
check called "apt-get .* install .*--no-remove libabsl-dev"
check said "installing libabsl-dev"
check called "bazel test //x"
check ended_with 7

begin "a command is missing: its package is installed"
rm "$work/bin/protoc"
run
check called "apt-get .* install .* protobuf-compiler"

begin "no Boost: 1.81 is installed"
rm "$work/usr/include/boost/asio.hpp"
run
check called "apt-get .* install .* libboost1.81-dev"

begin "nothing may be installed: what is missing is named"
without bazel-skylib
rm "$work/usr/include/boost/asio.hpp"
export SHOAL_NO_INSTALL=1
run
check ended_with 1
check said "missing: bazel-skylib libboost1.81-dev"
check not_called apt-get
check not_called "bazel test"

begin "nothing may be installed and nothing is missing"
run
check ended_with 7
unset SHOAL_NO_INSTALL

begin "the tools of CI are asked for"
export SHOAL_WITH_CI=1
fake clang
fake git
run
check called "apt-get .* install .*--no-remove clang-format iperf3 iproute2 npm"
unset SHOAL_WITH_CI

begin "the installation fails"
without g++
fake apt-get 'case "$*" in *install*) exit 100 ;; esac'
run
check ended_with 1
check said "could not install g++"
check not_called "bazel test"

begin "the mirror does not answer but the lists are there"
without g++
fake apt-get 'case "$*" in update*) exit 100 ;; esac'
run
check called "bazel test //x"

begin "not root: sudo is used"
without g++
fake id 'echo 1000'
fake sudo 'exec "$@"'
run
check called "sudo apt-get update -q"
check called "bazel test //x"

begin "not root and no sudo: says what root has to run"
without g++
fake id 'echo 1000'
run
check ended_with 1
check said "apt-get install g++"

begin "another system, with Bazel"
printf 'ID=ubuntu\nVERSION_ID="24.04"\n' >"$work/etc/os-release"
without g++
run
check called "bazel test //x"
check not_called apt-get

begin "another system, with Bazelisk"
rm "$work/etc/os-release" "$work/bin/bazel"
fake bazelisk
run
check called "bazelisk test //x"
check ended_with 0

begin "another system, without Bazel: says what to install"
rm "$work/etc/os-release" "$work/bin/bazel"
run
check ended_with 1
check said "bazelisk"
check said "C++20 compiler"

[ "$failures" = 0 ] && echo "bazelw_test: all cases passed"
exit "$failures"
