#include "proxy/convert/common/values.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proxy/config/model/name.h"

namespace sluice::convert {

std::string duration_text(std::chrono::milliseconds duration) {
  const int64_t ms = std::min<int64_t>(duration.count(), kLongestMs);
  if (ms == 0) return "0";
  if (ms % 3600000 == 0) return absl::StrCat(ms / 3600000, "h");
  if (ms % 60000 == 0) return absl::StrCat(ms / 60000, "m");
  return ms % 1000 == 0 ? absl::StrCat(ms / 1000, "s") : absl::StrCat(ms, "ms");
}

std::string size_text(uint64_t bytes) {
  if (bytes > 0 && bytes % (uint64_t{1} << 30) == 0) return absl::StrCat(bytes >> 30, "GiB");
  if (bytes > 0 && bytes % (uint64_t{1} << 20) == 0) return absl::StrCat(bytes >> 20, "MiB");
  return bytes > 0 && bytes % 1024 == 0 ? absl::StrCat(bytes >> 10, "KiB") : absl::StrCat(bytes);
}

std::string escape_percent(std::string_view text) { return absl::StrReplaceAll(text, {{"%", "%%"}}); }

std::string NameTable::name_for(std::string_view wanted) {
  const auto known = names_.find(wanted);
  if (known != names_.end()) return known->second;
  return names_.emplace(wanted, new_name(wanted)).first->second;
}

std::string NameTable::new_name(std::string_view wanted) {
  std::string name;
  for (const char c : wanted) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    if (fits || (!name.empty() && name.back() != '-')) name += fits ? c : '-';
  }
  if (name.size() > config::kMaxNameBytes) name.resize(config::kMaxNameBytes);
  if (name.empty()) name = "unnamed";
  std::string unique = name;
  for (int n = 2; used_[unique]++ > 0; ++n) {
    const std::string suffix = absl::StrCat("-", n);
    unique = name.substr(0, config::kMaxNameBytes - suffix.size()) + suffix;
  }
  return unique;
}

}  // namespace sluice::convert
