#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what every source file of Shoal has to look like.

  - its first line (after a "#!") names the licence;
  - a header's guard is SHOAL_<PACKAGE>_<FILE>_H_;
  - includes are "shoal/<package>/<file>", a header that a target under
    third_party/ stands for, or one of the language and the system: never bare,
    because a bare "comm/x.h" finds the header of whoever vendors Shoal;
  - an include of Shoal names a file that exists;
  - every header reaches shoal/base/dialect.h, which stops a build that is not
    C++20 with a remedy.

Usage: tools/checks/source_files.py
"""

import os
import re

import source_tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"

SOURCE_NAMES = (
    ".bazelrc", "BUILD.bazel", "MODULE.bazel", "WORKSPACE", "WORKSPACE.bzlmod",
    "bazelw", "run",
)
SOURCE_EXTENSIONS = (".bzl", ".cc", ".h", ".inc", ".proto", ".py", ".sh")

DIALECT = "base/dialect.h"

# Folders of headers that belong to the system and need no label.
SYSTEM_FOLDERS = {
    "arpa", "asm", "bits", "linux", "net", "netinet", "sanitizer", "sys",
}
# Libraries that only tools/peers includes, to measure them beside Shoal. No
# module registry has them, and nobody who builds Shoal needs them.
PEER_HEADERS = re.compile(r"gloo/.*|mpi\.h")
PEERS = "tools/peers/"
SYSTEM_HEADERS = {
    name + ".h" for name in """
    arm_neon arm_sve cpuid cxxabi dirent dlfcn errno execinfo fcntl fenv
    getopt grp ifaddrs immintrin inttypes limits locale malloc math netdb poll
    pthread pwd sched semaphore signal spawn stdarg stddef stdint stdio stdlib
    string strings syscall syslog termios time ucontext unistd wchar x86intrin
    """.split()
}


def check_licence(tree):
    for path in tree.files:
        name = os.path.basename(path)
        if name not in SOURCE_NAMES and not name.endswith(SOURCE_EXTENSIONS):
            continue
        lines = tree.read(path).split("\n", 2)
        line = lines[1] if lines[0].startswith("#!") and lines[1:] else lines[0]
        if line not in ("// " + LICENCE, "# " + LICENCE):
            yield "%s:1: the first line is not the licence (%s)" % (
                path, LICENCE)


def check_guards(tree):
    for path in tree.own(".h"):
        guard = re.sub(r"[^A-Z0-9]", "_", "SHOAL_" + path.upper()) + "_"
        text = tree.read(path)
        if ("#ifndef %s\n#define %s\n" % (guard, guard) not in text
                or not text.endswith("#endif  // %s\n" % guard)):
            yield "%s:1: the header guard is not %s" % (path, guard)


def is_system_header(header):
    folder, slash, _ = header.partition("/")
    if slash:
        return folder in SYSTEM_FOLDERS
    return header in SYSTEM_HEADERS or re.fullmatch(r"[a-z_0-9]+", header)


def check_includes(tree):
    third_party = tree.third_party_headers()
    files = set(tree.files)
    for path in tree.own(*source_tree.CC_EXTENSIONS):
        for line, quote, header in tree.includes(path):
            where = "%s:%d: " % (path, line)
            if header.startswith("shoal/"):
                source = header[len("shoal/"):]
                if source.endswith(".pb.h"):
                    source = source[:-len(".pb.h")] + ".proto"
                if quote == "<":
                    yield where + "<%s>: Shoal's headers go in quotes" % header
                elif source not in files:
                    yield where + '"%s" is not in the tree' % header
            elif source_tree.owners_of(header, third_party):
                pass
            elif quote == '"':
                yield where + (
                    'bare include "%s": write "shoal/<package>/<file>"'
                    % header)
            elif path.startswith(PEERS) and PEER_HEADERS.fullmatch(header):
                pass
            elif not is_system_header(header):
                yield where + (
                    "no target under third_party/ stands for <%s>, and "
                    "tools/checks/source_files.py does not know it as the "
                    "system's" % header)


def check_dialect(tree):
    """Follows Shoal's own includes from every header to dialect.h."""
    own = {}
    for path in tree.own(".h"):
        own[path] = {header[len("shoal/"):]
                     for _, _, header in tree.includes(path)
                     if header.startswith("shoal/")}
    reached = {DIALECT}
    while True:
        more = {p for p, includes in own.items()
                if p not in reached and includes & reached}
        if not more:
            break
        reached |= more
    for path in sorted(set(own) - reached):
        yield '%s:1: includes "shoal/%s" neither itself nor through another' % (
            path, DIALECT)


def problems_of(tree):
    return [problem
            for check in (check_licence, check_guards, check_includes,
                          check_dialect)
            for problem in check(tree)]


if __name__ == "__main__":
    source_tree.report(
        "source_files",
        problems_of(source_tree.Tree(source_tree.repository_root())))
