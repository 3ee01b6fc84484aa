#include "proxy/config/model/regex_engine.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "sluice/internal/check.h"

namespace sluice::config::regex_engine {
namespace {

constexpr size_t kMaxGroups = 10;  // \0 to \9

re2::RE2::Options options(size_t max_memory_bytes) {
  re2::RE2::Options options;
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // matches bytes, so that invalid UTF-8 cannot evade a match
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(static_cast<int64_t>(max_memory_bytes));
  return options;
}

// Not std::string_view in every RE2.
re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::shared_ptr<const re2::RE2> compile(std::string_view text, size_t max_memory_bytes) {
  return std::make_shared<const re2::RE2>(piece(text), options(max_memory_bytes));
}

const std::string& mistake(const re2::RE2& compiled) { return compiled.error(); }

bool fits(const re2::RE2& compiled, std::string_view subject) { return re2::RE2::FullMatch(piece(subject), compiled); }

bool find_groups(const re2::RE2& compiled, std::string_view subject, std::span<std::string_view> groups) {
  SLUICE_CHECK(groups.size() <= kMaxGroups);
  std::array<re2::StringPiece, kMaxGroups> found;
  if (!compiled.Match(piece(subject), 0, subject.size(), re2::RE2::ANCHOR_BOTH, found.data(),
                      static_cast<int>(groups.size()))) {
    return false;
  }
  std::transform(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(groups.size()), groups.begin(),
                 [](const re2::StringPiece& group) { return std::string_view(group.data(), group.size()); });
  return true;
}

int highest_group(std::string_view substitution) { return re2::RE2::MaxSubmatch(piece(substitution)); }

std::string substitution_mistake(const re2::RE2& compiled, std::string_view substitution) {
  std::string mistake;
  compiled.CheckRewriteString(piece(substitution), &mistake);
  return mistake;
}

}  // namespace sluice::config::regex_engine
