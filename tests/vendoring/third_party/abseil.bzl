# SPDX-License-Identifier: Apache-2.0
"""This repository's own Abseil: the system's, with a mark.

The mark is a macro that reaches everything that depends on any of its targets,
so that the program can tell whose Abseil Shoal was built with.
"""

_TARGETS = {
    "algorithm": ["algorithm", "container"],
    "base": ["base", "config", "core_headers", "log_severity"],
    "cleanup": ["cleanup"],
    "container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "flags": ["commandlineflag", "config", "flag", "marshalling", "parse", "reflection", "usage"],
    "functional": ["any_invocable", "bind_front", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "synchronization": ["synchronization"],
    "time": ["time"],
    "types": ["compare", "optional", "span", "variant"],
    "utility": ["utility"],
}

_LIBRARY = """
cc_library(
    name = "{name}",
    defines = ["ABSEIL_OF_THE_OUTER_REPOSITORY"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _own_abseil_impl(ctx):
    found = ctx.execute(["c++", "-print-file-name=libabsl_base.so"])
    libraries = [
        path.basename[len("lib"):-len(".so")]
        for path in ctx.path(found.stdout.strip()).dirname.readdir()
        if path.basename.startswith("libabsl_") and
           path.basename.endswith(".so") and "test" not in path.basename
    ]
    if not libraries:
        fail("no Abseil beside " + found.stdout)
    linkopts = (["-Wl,--push-state,--no-as-needed"] +
                ["-l" + name for name in libraries] +
                ["-Wl,--pop-state"])
    for package, names in _TARGETS.items():
        ctx.file(
            "absl/%s/BUILD.bazel" % package,
            "".join([
                _LIBRARY.format(name = name, linkopts = repr(linkopts))
                for name in names
            ]),
        )

own_abseil = repository_rule(
    implementation = _own_abseil_impl,
    local = True,
)
