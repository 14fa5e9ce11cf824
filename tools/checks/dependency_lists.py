#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the two lists of dependencies, WORKSPACE's and MODULE.bazel's, together.

  - deps.bzl and MODULE.bazel give the same repositories, but for those that
    deps.bzl itself says only Bazel 4 needs;
  - every repository that deps.bzl takes from third_party/ has its folder there,
    and no folder is left over;
  - WORKSPACE defines nothing beside deps.bzl, so that a repository that vendors
    Shoal gets all that Shoal gets;
  - every repository that a BUILD file or a .bzl file names is in the lists, and
    the other way round.

Starlark is close enough to Python for these three files to be run as it, with
stand-ins for what they call.

Usage: tools/checks/dependency_lists.py
"""

import re

import source_tree

# Part of Bazel, or Shoal itself.
BUILT_IN = {"bazel_tools", "local_config_cc", "local_config_platform", "shoal"}


class Recorder:
    """Stands in for anything a file calls; `called` lists what it was given."""

    def __init__(self):
        self.called = []

    def __call__(self, *args, **kwargs):
        self.called.append(kwargs)
        return self

    def __getattr__(self, name):
        return Recorder()


def workspace_repositories(deps_bzl):
    """Runs deps.bzl.

    Returns:
      ({name: folder in third_party/ or None}, names only Bazel 4 needs).
    """
    defined = {}

    def rule(**kwargs):
        defined[kwargs["name"]] = kwargs.get("folder")

    native = Recorder()
    native.existing_rule = lambda name: None
    native.local_repository = rule
    names = {
        "Label": Recorder(),
        "attr": Recorder(),
        "native": native,
        "repository_rule": lambda **kwargs: rule,
    }
    exec(compile(deps_bzl, "deps.bzl", "exec"), names)
    names["shoal_dependencies"]()
    return defined, set(names["ONLY_FOR_BAZEL_4"])


def module_repositories(module_bazel):
    """Runs MODULE.bazel and returns the names of its repositories."""
    bazel_dep = Recorder()
    exec(compile(module_bazel, "MODULE.bazel", "exec"),
         {"module": Recorder(), "bazel_dep": bazel_dep})
    return {dep.get("repo_name", dep["name"]) for dep in bazel_dep.called}


def calls_of(workspace):
    """Names of the functions that a WORKSPACE file calls at its top level."""
    return re.findall(r"^(\w+)\(", workspace, re.MULTILINE)


def used_repositories(tree):
    """{repository: first file that names it} over the BUILD and .bzl files."""
    used = {}
    for path in tree.own("BUILD.bazel", ".bzl"):
        if path == "deps.bzl":  # Its usage text names @shoal.
            continue
        # Also the short form of "@name//:name".
        for name in re.findall(r'"@([\w.~-]+)(?://|")', tree.read(path)):
            used.setdefault(name, path)
    return used


def problems_of(tree):
    problems = []
    defined, only_for_bazel_4 = workspace_repositories(tree.read("deps.bzl"))
    in_module = module_repositories(tree.read("MODULE.bazel"))

    shared = set(defined) - only_for_bazel_4
    for name in sorted(shared - in_module):
        problems.append("MODULE.bazel: no bazel_dep gives the repository %s, "
                        "which deps.bzl defines" % name)
    for name in sorted(in_module - shared):
        problems.append("deps.bzl: does not define the repository %s, which a "
                        "bazel_dep of MODULE.bazel gives" % name)
    for name in sorted(only_for_bazel_4 - set(defined)):
        problems.append("deps.bzl: ONLY_FOR_BAZEL_4 names %s, which it does "
                        "not define" % name)

    folders = {f.split("/")[1] for f in tree.files
               if re.match("third_party/[^/]+/", f)}
    wanted = {folder for folder in defined.values() if folder}
    for name in sorted(wanted - folders):
        problems.append("deps.bzl: there is no folder third_party/%s" % name)
    for name in sorted(folders - wanted):
        problems.append("third_party/%s: deps.bzl does not use it" % name)

    for call in calls_of(tree.read("WORKSPACE")):
        if call not in ("workspace", "load", "shoal_dependencies"):
            problems.append("WORKSPACE: calls %s; dependencies belong in "
                            "deps.bzl" % call)

    used = used_repositories(tree)
    for name in sorted(set(used) - shared - BUILT_IN):
        problems.append("%s: uses @%s, which is in neither list"
                        % (used[name], name))
    for name in sorted(shared - set(used)):
        problems.append("deps.bzl, MODULE.bazel: nothing uses @%s" % name)
    return problems


if __name__ == "__main__":
    source_tree.report(
        "dependency_lists",
        problems_of(source_tree.Tree(source_tree.repository_root())))
