#include "proxy/config/model/admin.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

absl::StatusOr<FileMode> FileMode::parse(std::string_view text) {
  uint32_t bits = 0;
  const bool is_octal = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
  for (const char c : is_octal ? text : std::string_view()) bits = bits * 8 + static_cast<uint32_t>(c - '0');
  if (!is_octal || text.size() < 3 || text.size() > 4 || bits > 0777) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the permissions of a file in octal, such as 0600 or 0660, got ", in_quotes(text)));
  }
  return FileMode(bits);
}

std::string FileMode::text() const { return absl::StrFormat("%04o", bits_); }

}  // namespace sluice::config
