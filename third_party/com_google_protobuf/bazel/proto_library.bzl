# SPDX-License-Identifier: Apache-2.0
"""The native proto_library of Bazel 4, under the load path of protobuf."""

proto_library = native.proto_library
