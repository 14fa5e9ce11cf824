# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the tree they look at and how they report."""

import ast
import os
import re
import subprocess
import sys

CC_EXTENSIONS = (".h", ".cc", ".inc")

# Stand-ins for other people's repositories and a repository of its own: not
# under Shoal's rules for labels and includes.
FOREIGN_FOLDERS = ("third_party/", "tests/vendoring/")

_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


class Tree:
    """The source files of a repository.

    Args:
      root: folder of the repository.
      files: paths relative to it; by default those that git knows of or would
        add.
    """

    def __init__(self, root, files=None):
        self.root = root
        if files is None:
            listed = subprocess.run(
                ["git", "ls-files", "-co", "--exclude-standard", "-z"],
                cwd=root, check=True, stdout=subprocess.PIPE)
            files = [f for f in listed.stdout.decode().split("\0") if f]
        self.files = sorted(
            f for f in files if os.path.isfile(os.path.join(root, f)))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def own(self, *extensions):
        """The files under Shoal's own rules, of all or of these extensions."""
        return [f for f in self.files
                if not f.startswith(FOREIGN_FOLDERS)
                and (not extensions or f.endswith(extensions))]

    def includes(self, path):
        """Yields (line number, '"' or '<', header) of each #include."""
        for number, line in enumerate(self.read(path).splitlines(), 1):
            match = _INCLUDE.match(line)
            if match:
                yield number, match.group(1), match.group(2)

    def third_party_headers(self):
        """What the targets under third_party/ stand for.

        Returns:
          {header, or folder that ends in "/": set of labels}.
        """
        owners = {}
        for path in self.files:
            match = re.fullmatch(
                r"third_party/([^/]+)(?:/(.*))?/BUILD\.bazel", path)
            if not match:
                continue
            for call in ast.walk(ast.parse(self.read(path))):
                if (isinstance(call, ast.Call)
                        and isinstance(call.func, ast.Name)
                        and call.func.id == "system_library"):
                    arguments = {k.arg: k.value for k in call.keywords}
                    label = "@%s//%s:%s" % (
                        match.group(1), match.group(2) or "",
                        ast.literal_eval(arguments["name"]))
                    for header in ast.literal_eval(arguments["headers"]):
                        owners.setdefault(header, set()).add(label)
        return owners


def owners_of(header, third_party_headers):
    """The labels that give `header`: of the longest entry that covers it."""
    if header in third_party_headers:
        return third_party_headers[header]
    folders = [f for f in third_party_headers
               if f.endswith("/") and header.startswith(f)]
    return third_party_headers[max(folders, key=len)] if folders else set()


def repository_root():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(os.path.dirname(here))


def report(name, problems):
    """Prints the problems and ends the program accordingly."""
    for problem in problems:
        print(problem)
    if problems:
        print("%s: %d problem(s)" % (name, len(problems)))
        sys.exit(1)
    print("%s: OK" % name)
