// SPDX-License-Identifier: Apache-2.0
//
// The files that a tool is given on its command line.
//
// All functions are thread-safe as long as nobody changes the environment.

#ifndef SHOAL_TOOLS_COMMON_FILES_H_
#define SHOAL_TOOLS_COMMON_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace shoal::tools {

// `path` as the user meant it: `bazel run` changes the directory and says, in
// BUILD_WORKING_DIRECTORY, where it was called. An empty one stays empty.
std::string FromCallersDirectory(const std::string& path);

// Writes `text` to a file. The errors name it: `INVALID_ARGUMENT` for what is
// there and neither a regular file nor a character device (a FIFO would wait
// for a reader); otherwise as errno has it.
absl::Status WriteFile(const std::string& path, const std::string& text);

// The whole of a file. The errors name it, with the codes of `WriteFile`.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_FILES_H_
