# SPDX-License-Identifier: Apache-2.0
"""What Shoal needs from outside, for builds that use a WORKSPACE file.

Write in the WORKSPACE of the repository that vendors Shoal, after its own
dependencies:

    load("@shoal//:deps.bzl", "shoal_dependencies")

    shoal_dependencies()

A repository that is already defined under one of these names wins.
Builds that use MODULE.bazel get the same list from there, and need no call.
"""

# Repositories that only Bazel 4 looks for: it refers to them itself, or they stand
# in for what newer releases bring along. MODULE.bazel does not list them.
ONLY_FOR_BAZEL_4 = [
    "bazel_skylib",
    "platforms",
    "remote_coverage_tools",
    "rules_java",
    "rules_proto",
]

def _vendored_folder_impl(ctx):
    # Through Label, because this must find the files of Shoal also when the
    # macro below runs in the WORKSPACE of another repository.
    third_party = ctx.path(Label("//:deps.bzl")).dirname.get_child("third_party")
    for entry in third_party.get_child(ctx.attr.folder).readdir():
        ctx.symlink(entry, entry.basename)
    ctx.symlink(
        third_party.get_child("system_library.bzl"),
        "system_library.bzl",
    )

_vendored_folder = repository_rule(
    implementation = _vendored_folder_impl,
    attrs = {"folder": attr.string(mandatory = True)},
    doc = "A folder of third_party/ as a repository.",
    local = True,
)

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def shoal_dependencies():
    """Defines every repository that Shoal needs and that is not defined yet."""

    # Libraries of the operating system.
    for name in [
        "boost.asio",
        "com_google_absl",
        "com_google_googletest",
        "com_google_protobuf",
        "google_benchmark",
        "highway",
    ]:
        _maybe(_vendored_folder, name = name, folder = name)

    # Bazel 4's own rules under the load paths of the rule sets that came after.
    for name in [
        "remote_coverage_tools",
        "rules_cc",
        "rules_shell",
    ]:
        _maybe(_vendored_folder, name = name, folder = name)

    # Rule sets that Bazel 4 itself refers to, as Debian packages them.
    _maybe(native.local_repository, name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
    _maybe(native.local_repository, name = "platforms", path = "/usr/share/bazel/tools/platforms")
    _maybe(native.local_repository, name = "rules_java", path = "/usr/share/bazel/rules/java")
    _maybe(native.local_repository, name = "rules_proto", path = "/usr/share/bazel/rules/proto")
