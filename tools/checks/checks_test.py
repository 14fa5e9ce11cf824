# SPDX-License-Identifier: Apache-2.0
"""Shows that each check passes a sound tree and finds what it is there to find."""

import os
import shutil
import tempfile
import unittest

import dependency_lists
import source_files
import source_tree
import third_party_includes

SLASHES = "// SPDX-License-Identifier: Apache-2.0\n"
HASH = "# SPDX-License-Identifier: Apache-2.0\n"


def header(guard, body=""):
    return "%s\n#ifndef %s\n#define %s\n%s\n#endif  // %s\n" % (
        SLASHES, guard, guard, body, guard)


# A small tree that every check accepts.
SOUND = {
    "WORKSPACE": HASH + 'workspace(name = "shoal")\n'
                        'load("//:deps.bzl", "shoal_dependencies")\n'
                        "shoal_dependencies()\n",
    "MODULE.bazel": HASH + 'module(name = "shoal")\n'
                           'bazel_dep(name = "abseil-cpp", version = "1", '
                           'repo_name = "com_google_absl")\n'
                           'bazel_dep(name = "rules_cc", version = "1")\n',
    "deps.bzl": HASH + '''
ONLY_FOR_BAZEL_4 = ["platforms"]
_folder = repository_rule(implementation = None)
def shoal_dependencies():
    for name in ["com_google_absl", "rules_cc"]:
        _folder(name = name, folder = name)
    native.local_repository(name = "platforms", path = "/usr/share/platforms")
''',
    "third_party/rules_cc/BUILD.bazel": HASH,
    "third_party/com_google_absl/absl/status/BUILD.bazel": HASH + '''
system_library(
    name = "status",
    headers = ["absl/status/status.h"],
)
''',
    "third_party/com_google_absl/BUILD.bazel": HASH + '''
system_library(name = "all", headers = ["absl/"])
''',
    "base/BUILD.bazel": HASH + '''
load("@rules_cc//cc:cc_library.bzl", "cc_library")
cc_library(name = "x", deps = ["@com_google_absl//absl/status"])
''',
    "base/dialect.h": header("SHOAL_BASE_DIALECT_H_"),
    "base/x.h": header("SHOAL_BASE_X_H_",
                       '#include <vector>\n#include <sys/socket.h>\n'
                       '#include "shoal/base/dialect.h"\n'),
    "base/x.cc": SLASHES + '#include "shoal/base/x.h"\n'
                           '#include "absl/status/status.h"\n',
    "tests/vendoring/comm/communicator.h": SLASHES,
}

QUERY = '''<query version="2">
<rule class="cc_library" name="//base:x">
  <list name="srcs"><label value="//base:x.cc"/></list>
  <list name="hdrs"><label value="//base:dialect.h"/>
    <label value="//base:x.h"/></list>
  <list name="deps">%s</list>
</rule></query>'''
ABSL_STATUS = "@com_google_absl//absl/status:status"


class ChecksTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.root)

    def tree(self, changes):
        """SOUND with some files changed; one that is None is left out."""
        files = {k: v for k, v in {**SOUND, **changes}.items() if v is not None}
        shutil.rmtree(self.root)
        for path, text in files.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return source_tree.Tree(self.root, list(files))

    def expect(self, problems, *parts):
        """Exactly one problem, which contains every part; none without parts."""
        self.assertEqual(len(problems), 1 if parts else 0, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def source_files(self, changes, *parts):
        self.expect(source_files.problems_of(self.tree(changes)), *parts)

    def includes(self, changes, deps, *parts):
        query = QUERY % "".join('<label value="%s"/>' % d for d in deps)
        self.expect(third_party_includes.problems_of(self.tree(changes), query),
                    *parts)

    def lists(self, changes, *parts):
        self.expect(dependency_lists.problems_of(self.tree(changes)), *parts)

    def test_sound_tree_passes(self):
        self.source_files({})
        self.includes({}, [ABSL_STATUS])
        self.lists({})

    def test_missing_licence(self):
        for path in ("base/x.cc", "base/BUILD.bazel", "deps.bzl",
                     "third_party/rules_cc/BUILD.bazel"):
            self.source_files({path: SOUND[path].split("\n", 1)[1]},
                              path + ":1", "licence")
        self.source_files({"tools/x.sh": "#!/bin/sh\necho\n"}, "tools/x.sh:1")
        self.source_files({"tools/x.sh": "#!/bin/sh\n" + HASH})
        self.source_files({"tools/x.py": ""}, "tools/x.py:1")

    def test_header_guard(self):
        self.source_files(
            {"base/x.h": SOUND["base/x.h"].replace("BASE_X_H_", "X_H_")},
            "base/x.h:1", "SHOAL_BASE_X_H_")

    def test_bare_includes(self):
        for include in ('"base/x.h"', '"x.h"', '"comm/communicator.h"'):
            self.source_files({"base/x.cc": SLASHES + "#include %s\n" % include},
                              "base/x.cc:2", "bare include", include)

    def test_include_of_a_file_that_is_not_there(self):
        self.source_files(
            {"base/x.cc": SLASHES + '\n#include "shoal/base/y.h"\n'},
            "base/x.cc:3", "not in the tree")
        self.source_files(
            {"base/x.cc": SLASHES + '#include "shoal/base/y.pb.h"\n',
             "base/y.proto": SLASHES})

    def test_include_of_shoal_in_angle_brackets(self):
        self.source_files(
            {"base/x.cc": SLASHES + "#include <shoal/base/x.h>\n"}, "quotes")

    def test_include_of_a_library_that_is_in_no_list(self):
        self.source_files(
            {"base/x.cc": SLASHES + "#include <zlib.h>\n"}, "<zlib.h>")
        self.source_files(
            {"base/x.cc": SLASHES + "# include <openssl/ssl.h>\n"},
            "<openssl/ssl.h>")

    def test_header_that_does_not_reach_the_dialect(self):
        self.source_files(
            {"base/y.h": header("SHOAL_BASE_Y_H_")}, "base/y.h", "dialect.h")
        self.source_files(
            {"base/y.h": header("SHOAL_BASE_Y_H_",
                                '#include "shoal/base/x.h"\n')})

    def test_missing_dependency(self):
        self.includes({}, [], "base/x.cc:3", "//base:x", ABSL_STATUS)

    def test_dependency_is_that_of_the_most_specific_entry(self):
        self.includes(
            {"base/x.cc": SLASHES + '#include "absl/types/span.h"\n'},
            ["@com_google_absl//:all"])

    def test_unused_dependency(self):
        self.includes({"base/x.cc": SLASHES}, [ABSL_STATUS],
                      "//base:x", "nothing", ABSL_STATUS)

    def test_file_in_no_target(self):
        self.includes({"base/y.cc": SLASHES}, [ABSL_STATUS],
                      "base/y.cc", "no target")

    def test_dependency_that_only_deps_bzl_has(self):
        self.lists(
            {"MODULE.bazel": SOUND["MODULE.bazel"].replace("rules_cc", "zlib")
                             + 'bazel_dep(name = "rules_cc", version = "1")\n',
             "deps.bzl": SOUND["deps.bzl"].replace(
                 '"platforms"]', '"platforms", "zlib"]')
                         + '    native.local_repository(name = "zlib")\n'},
            "zlib")

    def test_dependency_that_only_module_bazel_has(self):
        problems = dependency_lists.problems_of(self.tree(
            {"MODULE.bazel":
                 SOUND["MODULE.bazel"] + 'bazel_dep(name = "zlib")\n'}))
        self.assertIn("deps.bzl: does not define the repository zlib, which a "
                      "bazel_dep of MODULE.bazel gives", problems)

    def test_dependency_that_module_bazel_lacks(self):
        self.lists(
            {"MODULE.bazel": "\n".join(
                l for l in SOUND["MODULE.bazel"].split("\n")
                if "rules_cc" not in l)},
            "MODULE.bazel", "no bazel_dep", "rules_cc")

    def test_folder_that_nothing_uses(self):
        self.lists({"third_party/zlib/BUILD.bazel": HASH}, "third_party/zlib")

    def test_folder_that_is_not_there(self):
        self.lists({"third_party/rules_cc/BUILD.bazel": None},
                   "no folder third_party/rules_cc")

    def test_dependency_in_workspace_itself(self):
        self.lists(
            {"WORKSPACE": SOUND["WORKSPACE"] + 'local_repository(name = "z")\n'},
            "WORKSPACE", "local_repository")

    def test_repository_in_its_short_form(self):
        self.lists(
            {"base/BUILD.bazel": SOUND["base/BUILD.bazel"]
                                 + 'filegroup(name = "x", srcs = ["@short"])\n'},
            "@short", "neither list")

    def test_repository_that_no_list_has(self):
        self.lists(
            {"base/BUILD.bazel": SOUND["base/BUILD.bazel"]
                                 + 'y(deps = ["@zlib//:zlib"])\n'},
            "base/BUILD.bazel", "@zlib")

    def test_repository_that_nothing_uses(self):
        self.lists(
            {"base/BUILD.bazel": HASH + 'load("@rules_cc//cc:x.bzl", "x")\n'},
            "nothing uses @com_google_absl")


if __name__ == "__main__":
    unittest.main()
