#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the libraries that tools/peers measures beside Shoal, on Debian 12.
# Nothing else of Shoal needs them.

set -eu
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
  --no-install-recommends --no-remove \
  libgloo-dev libopenmpi-dev openmpi-bin
