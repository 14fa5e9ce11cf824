# SPDX-License-Identifier: Apache-2.0
"""The native cc_proto_library of Bazel 4, under the load path of protobuf."""

cc_proto_library = native.cc_proto_library
