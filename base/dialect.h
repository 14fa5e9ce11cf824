// SPDX-License-Identifier: Apache-2.0
//
// Stops the build, with the remedy, where the compiler is not in C++20 mode.
//
// Bazel reads the .bazelrc of the outermost repository only, so one that
// vendors Shoal has to choose the dialect itself. Every public header of Shoal
// includes this one, directly or through another, so that a wrong dialect is
// the first error and not a page of them.

#ifndef SHOAL_BASE_DIALECT_H_
#define SHOAL_BASE_DIALECT_H_

#if !defined(__cplusplus) || __cplusplus < 202002L
#error \
    "Shoal needs C++20: put 'build --cxxopt=-std=c++20 --host_cxxopt=-std=c++20' into the .bazelrc of the outermost repository (Bazel ignores Shoal's own there)."
#endif

#endif  // SHOAL_BASE_DIALECT_H_
