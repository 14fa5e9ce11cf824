# SPDX-License-Identifier: Apache-2.0
"""A library that the operating system installs, as a Bazel target.

deps.bzl puts a copy of this file into each repository that needs it.
"""

def system_library(name, headers, linkopts = [], deps = [], **kwargs):
    """Declares a system library, whose headers the compiler finds by itself.

    Args:
      name: name of the target.
      headers: what this target stands for: headers as they are included, or
        folders that end in "/". The build needs no such list; the check of
        third-party includes reads it (tools/checks/third_party_includes.py).
      linkopts: what a program has to be linked with.
      deps: targets that this one needs.
      **kwargs: passed to cc_library.
    """
    if not headers:
        fail("%s: which headers does this library stand for?" % name)
    native.cc_library(
        name = name,
        linkopts = linkopts,
        visibility = ["//visibility:public"],
        deps = deps,
        **kwargs
    )
