#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs checks_test.py. Not a py_test: no rules for Python are among the dependencies.

exec python3 -B tools/checks/checks_test.py
