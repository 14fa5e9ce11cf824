// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"

namespace shoal::tools {
namespace {

// `doing`: "write".
absl::Status FileError(absl::string_view doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", doing, " ", path));
}

absl::Status RefuseSpecialFile(absl::string_view doing,
                               const std::string& path) {
  struct stat there;
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) &&
      !S_ISCHR(there.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot ", doing, " ", path, ": it is not a regular file"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FromCallersDirectory(const std::string& path) {
  const char* directory = getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || path.empty() || path[0] == '/') return path;
  return absl::StrCat(directory, "/", path);
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  SHOAL_RETURN_IF_ERROR(RefuseSpecialFile("write", path));
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return FileError("write", path);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const absl::Status status =
      written ? absl::OkStatus() : FileError("write", path);
  if (std::fclose(file) != 0 && status.ok()) return FileError("write", path);
  return status;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  SHOAL_RETURN_IF_ERROR(RefuseSpecialFile("read", path));
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return FileError("read", path);
  std::string text;
  char piece[1 << 14];
  std::size_t size;
  while ((size = std::fread(piece, 1, sizeof piece, file)) > 0) {
    text.append(piece, size);
  }
  const absl::Status status =
      std::ferror(file) ? FileError("read", path) : absl::OkStatus();
  std::fclose(file);
  if (!status.ok()) return status;
  return text;
}

}  // namespace shoal::tools
