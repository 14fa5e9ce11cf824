#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

exec python3 tools/peers/compare_test.py
