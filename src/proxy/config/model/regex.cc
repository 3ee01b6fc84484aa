#include "proxy/config/model/regex.h"

#include <re2/re2.h>

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "sluice/internal/check.h"

namespace sluice::config {
namespace {

constexpr int kMaxGroups = 10;  // \0 to \9

re2::RE2::Options options() {
  re2::RE2::Options options;
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // matches bytes, so that invalid UTF-8 cannot evade a match
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(Regex::kMaxMemoryBytes);
  return options;
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<Regex> Regex::parse(std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("expected a regular expression, got \"\"");
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a regular expression has ", kMaxTextBytes, " bytes at most, this one ", text.size()));
  }
  auto compiled = std::make_shared<const re2::RE2>(piece(text), options());
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a regular expression, got ", in_quotes(text), ": ", compiled->error()));
  }
  Regex regex;
  regex.text_ = text;
  regex.compiled_ = std::move(compiled);
  return regex;
}

bool Regex::fits(std::string_view subject) const { return re2::RE2::FullMatch(piece(subject), *compiled_); }

std::optional<std::string_view> Regex::substitute(std::string_view subject, std::string_view substitution,
                                                  std::span<char> room) const {
  std::array<re2::StringPiece, kMaxGroups> groups;
  const int wanted = re2::RE2::MaxSubmatch(piece(substitution)) + 1;
  if (!compiled_->Match(piece(subject), 0, subject.size(), re2::RE2::ANCHOR_BOTH, groups.data(), wanted)) {
    return subject;
  }
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
    } else if (const re2::StringPiece& group = groups[static_cast<size_t>(c - '0')];
               !write(group.data(), group.size())) {
      return std::nullopt;
    }
  }
  return std::string_view(room.data(), size);
}

absl::Status Regex::accepts(std::string_view substitution) const {
  std::string error;
  if (compiled_->CheckRewriteString(piece(substitution), &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(error);
}

}  // namespace sluice::config
