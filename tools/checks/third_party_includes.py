#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds each third-party #include against the deps of its target.

Where a library is the system's, its headers are found without any dependency, so
neither the compiler nor layering_check misses a label that is not there: the
build breaks only at someone who builds the library from source. This check says,
for every target:

  - a file includes a third-party header and no label in deps stands for it;
  - a label in deps stands for headers of which no file includes one;

and for the tree, which .h and .cc files belong to no target.

What a label stands for is read from the targets under third_party/. The targets
come from `bazel query`.

Usage: tools/checks/third_party_includes.py [FILE]
FILE is the XML of `bazel query --output=xml` where that has been run already.
"""

import subprocess
import sys
import xml.etree.ElementTree

import source_tree

QUERY = 'kind("cc_(binary|library|test) rule", //...)'


def run_query(root):
    result = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--output=xml", QUERY],
        cwd=root, check=True, stdout=subprocess.PIPE)
    return result.stdout.decode()


def path_of(label):
    """The path of a file in the main repository, or None for other labels."""
    if not label.startswith("//"):
        return None
    package, _, name = label[2:].partition(":")
    return package + "/" + name if package else name


def targets_of(query_xml):
    """Yields (label, files, deps), the last two sets."""
    for rule in xml.etree.ElementTree.fromstring(query_xml).iter("rule"):
        lists = {
            node.get("name"): {label.get("value") for label in node}
            for node in rule.findall("list")
        }
        files = set()
        for attribute in ("srcs", "hdrs", "textual_hdrs"):
            files |= {path_of(l) for l in lists.get(attribute, set())}
        yield (rule.get("name"), files - {None},
               lists.get("deps", set()) | lists.get("implementation_deps", set()))


def problems_of(tree, query_xml):
    problems = []
    headers = tree.third_party_headers()
    labels = set().union(*headers.values())
    sources = set(tree.own(*source_tree.CC_EXTENSIONS))
    in_a_target = set()
    for label, files, deps in targets_of(query_xml):
        in_a_target |= files
        used = set()
        for path in sorted(files & sources):
            for line, _, header in tree.includes(path):
                owners = source_tree.owners_of(header, headers)
                used |= owners
                if owners and not owners & deps:
                    problems.append(
                        "%s:%d: includes %s, but %s has no dependency on %s" % (
                            path, line, header, label,
                            " or ".join(sorted(owners))))
        for unused in sorted((deps & labels) - used):
            problems.append(
                "%s: depends on %s, of which it includes nothing" % (
                    label, unused))
    for path in sorted(sources - in_a_target):
        problems.append("%s: belongs to no target" % path)
    return problems


def main(arguments):
    root = source_tree.repository_root()
    if arguments:
        with open(arguments[0], encoding="utf-8") as file:
            query_xml = file.read()
    else:
        query_xml = run_query(root)
    source_tree.report("third_party_includes",
                       problems_of(source_tree.Tree(root), query_xml))


if __name__ == "__main__":
    main(sys.argv[1:])
