#include "proxy/config/model/regex.h"

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/regex_engine.h"
#include "sluice/internal/check.h"

namespace sluice::config {
namespace {

constexpr int kMaxGroups = 10;  // \0 to \9

}  // namespace

absl::StatusOr<Regex> Regex::parse(std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("expected a regular expression, got \"\"");
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a regular expression has ", kMaxTextBytes, " bytes at most, this one ", text.size()));
  }
  auto compiled = regex_engine::compile(text, kMaxMemoryBytes);
  if (const std::string& mistake = regex_engine::mistake(*compiled); !mistake.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a regular expression, got ", in_quotes(text), ": ", mistake));
  }
  Regex regex;
  regex.text_ = text;
  regex.compiled_ = std::move(compiled);
  return regex;
}

bool Regex::fits(std::string_view subject) const { return regex_engine::fits(*compiled_, subject); }

std::optional<std::string_view> Regex::substitute(std::string_view subject, std::string_view substitution,
                                                  std::span<char> room) const {
  std::array<std::string_view, kMaxGroups> groups;
  const auto wanted = static_cast<size_t>(regex_engine::highest_group(substitution)) + 1;
  if (!regex_engine::find_groups(*compiled_, subject, std::span(groups).first(wanted))) return subject;
  size_t size = 0;
  const auto write = [&](const char* bytes, size_t count) {
    if (count > room.size() - size) return false;
    size += std::string_view(bytes, count).copy(room.data() + size, count);
    return true;
  };
  for (size_t i = 0; i < substitution.size(); ++i) {
    if (substitution[i] != '\\') {
      if (!write(&substitution[i], 1)) return std::nullopt;
      continue;
    }
    const char c = substitution[++i];
    if (c == '\\') {
      if (!write(&c, 1)) return std::nullopt;
    } else if (const std::string_view group = groups[static_cast<size_t>(c - '0')];
               !write(group.data(), group.size())) {
      return std::nullopt;
    }
  }
  return std::string_view(room.data(), size);
}

absl::Status Regex::accepts(std::string_view substitution) const {
  const std::string mistake = regex_engine::substitution_mistake(*compiled_, substitution);
  return mistake.empty() ? absl::OkStatus() : absl::InvalidArgumentError(mistake);
}

}  // namespace sluice::config
