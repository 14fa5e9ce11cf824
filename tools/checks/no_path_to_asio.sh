#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Shows that nothing in partition, tensor or layers reaches Boost.Asio: whoever
# uses only the arithmetic or the layers links no sockets. Packages that do not
# exist yet are passed over.
#
# Usage: tools/checks/no_path_to_asio.sh

set -eu
cd "$(dirname "$0")/../.."

asio=@boost.asio//:boost.asio

path_from() {
  bazel query --noshow_progress --output=label "somepath($1, $asio)"
}

# What is known to use Asio, so that an empty answer means something.
if [ -z "$(path_from //comm/...)" ]; then
  echo "no_path_to_asio: not even //comm/... reaches $asio; the query is wrong"
  exit 1
fi

failed=0
for package in base process partition tensor layers; do
  [ -d "$package" ] || continue
  path=$(path_from "//$package/...")
  if [ -n "$path" ]; then
    echo "no_path_to_asio: //$package/... reaches $asio through"
    echo "$path"
    failed=1
  else
    echo "no_path_to_asio: //$package/...: OK"
  fi
done
exit $failed
