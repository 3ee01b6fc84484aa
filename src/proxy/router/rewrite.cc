#include "proxy/router/rewrite.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "proxy/router/canonical_path.h"

namespace sluice {
namespace {

// Builds a text in the caller's buffer.
class Line {
 public:
  explicit Line(std::span<char> room) : room_(room) {}

  Line& add(std::string_view text) {
    whole_ = whole_ && text.size() <= room_.size() - size_;
    if (whole_) size_ += text.copy(room_.data() + size_, text.size());
    return *this;
  }
  std::optional<std::string_view> text() const {
    return whole_ ? std::optional(std::string_view(room_.data(), size_)) : std::nullopt;
  }
  std::span<char> rest() const { return room_.subspan(size_); }

 private:
  std::span<char> room_;
  size_t size_ = 0;
  bool whole_ = true;
};

std::string_view without_slash(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// The substitution may produce dot segments, for example, so the result is made canonical.
std::optional<std::string_view> substituted(const config::PathChange& change, std::string_view path,
                                            const config::Paths& paths, std::span<char> scratch) {
  static thread_local std::array<char, Fields::kMaxBytes> made_scratch;
  const std::optional<std::string_view> made = change.regex.substitute(path, change.substitution, made_scratch);
  if (!made || made->size() > scratch.size()) return std::nullopt;
  if (made->data() == path.data()) return path;
  const CanonicalTarget canonical = canonical_target(*made, paths, scratch);
  switch (canonical.status) {
    case PathStatus::kSame:
      return Line(scratch).add(*made).text();
    case PathStatus::kChanged:
      return canonical.target;
    case PathStatus::kInvalid:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> changed_path(const config::PathChange& change,
                                             const std::optional<config::HttpMatch>& match,
                                             const RequestAttributes& facts, const config::Paths& paths,
                                             std::span<char> scratch) {
  if (!change.path.empty()) return change.path;
  if (change.regex.is_set()) return substituted(change, facts.path, paths, scratch);
  if (change.prefix.empty() || !match || !match->path) return facts.path;
  const std::string_view rest = facts.path.substr(without_slash(match->path->prefix).size());
  // `rest` begins with the one slash between the two, unless it is empty.
  if (rest.empty()) return change.prefix;
  return Line(scratch).add(without_slash(change.prefix)).add(rest).text();
}

std::optional<std::string_view> redirect_location(const config::Redirect& redirect,
                                                  const std::optional<config::HttpMatch>& match,
                                                  const RequestAttributes& facts, const config::Paths& paths,
                                                  std::span<char> scratch) {
  Line line(scratch);
  if (!redirect.scheme.empty() || !redirect.host.empty() || redirect.port != 0) {
    if (redirect.host.empty() && facts.host.empty()) return std::nullopt;  // A full URL needs a host.
    line.add(redirect.scheme.empty() ? facts.scheme : redirect.scheme).add("://");
    line.add(redirect.host.empty() ? facts.host : redirect.host);
    if (redirect.port != 0) {
      std::array<char, 8> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), redirect.port);
      line.add(":").add({digits.data(), static_cast<size_t>(end.ptr - digits.data())});
    }
  }
  // A relative location must not begin with two slashes, because a host would follow.
  static thread_local std::array<char, Fields::kMaxBytes> path_scratch;
  const std::optional<std::string_view> path = changed_path(redirect, match, facts, paths, path_scratch);
  if (!path) return std::nullopt;
  const bool relative = line.text() && line.text()->empty();
  if (relative && path->starts_with("//")) line.add("/.");
  line.add(*path);
  if (!redirect.drop_query && !facts.query.empty()) line.add("?").add(facts.query);
  return line.text();
}

}  // namespace sluice
