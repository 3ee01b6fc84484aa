#include "proxy/router/canonical_path.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/internal/check.h"

namespace sluice {
namespace {

using config::EscapedSlashes;

constexpr bool is_alphanumeric(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}
constexpr bool is_unreserved(uint8_t c) { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'; }
constexpr bool is_visible(uint8_t c) { return c > 0x20 && c < 0x7f; }

// A table of character kinds. The low half of an entry classifies the character; the high half lists the kinds that
// must not follow it if the path is canonical as it is. (A loop that looks for dots only after slashes executes fewer
// instructions, but takes twice the time.)
constexpr uint8_t kStop = 1, kSlash = 2, kDot = 4;
constexpr std::array<uint8_t, 256> kKinds = [] {
  std::array<uint8_t, 256> kinds{};
  for (size_t c = 0; c < 256; ++c) {
    const auto byte = static_cast<uint8_t>(c);
    const bool stops = !is_visible(byte) || byte == '%' || byte == '\\' || byte == '?' || byte == '#';
    kinds[c] = static_cast<uint8_t>(kStop << 4 | (stops ? kStop : 0));
  }
  kinds['.'] |= kDot;
  kinds['/'] = (kStop | kSlash | kDot) << 4 | kSlash;
  return kinds;
}();

// Returns the offset of the first character that may need rewriting, or the path's size if there is none. Precondition:
// the path begins with a slash.
size_t plain_bytes(std::string_view path) {
  uint8_t refused = kKinds['/'] >> 4;
  size_t at = 1;
  for (; at < path.size(); ++at) {
    const uint8_t kind = kKinds[static_cast<uint8_t>(path[at])];
    if (kind & refused) break;
    refused = kind >> 4;
  }
  return at;
}

constexpr const char* kFragment = "a fragment";
constexpr const char* kInvisible = "a character that must be escaped";

const char* error_of(char c) { return c == '#' ? kFragment : kInvisible; }

// Returns null if the query is valid.
const char* query_error(std::string_view query) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
  while (query.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, query.data(), sizeof word);
    // Sets the high bit of each byte that is below 0x21, at least 0x7f, or '#', and possibly of bytes above such a
    // byte.
    const uint64_t hash = word ^ ('#' * kOnes);
    if ((((word - 0x21 * kOnes) & ~word) | word | (word + kOnes) | ((hash - kOnes) & ~hash)) & kHighs) break;
    query.remove_prefix(8);
  }
  for (const char c : query) {
    if (!is_visible(static_cast<uint8_t>(c)) || c == '#') return error_of(c);
  }
  return nullptr;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

enum class Dots : uint8_t { kNone, kOne, kTwo, kWithParameters };

// Whether a segment, or a part of one between separators that are kept, is a dot segment.
Dots dots_of(std::string_view part) {
  if (!part.starts_with('.')) return Dots::kNone;
  const size_t dots = part.starts_with("..") ? 2 : 1;
  if (part.size() == dots) return dots == 1 ? Dots::kOne : Dots::kTwo;
  part.remove_prefix(dots);
  return part.starts_with(';') || part.starts_with("%3B") ? Dots::kWithParameters : Dots::kNone;
}

// Writes the canonical form of a path. Member functions that can fail return an error, or null.
class Rewriter {
 public:
  Rewriter(std::string_view target, const config::Paths& rules, char* out) : in_(target), rules_(rules), out_(out) {}

  // Precondition: the first `plain` bytes are canonical, except that their last segment is incomplete.
  const char* run(size_t plain) {
    std::memcpy(out_, in_.data(), plain);
    at_ = size_ = plain;
    segment_ = part_ = in_.substr(0, plain).rfind('/') + 1;
    while (at_ < in_.size() && in_[at_] != '?') {
      if (const char* error = step()) return error;
    }
    return end_segment(true);
  }

  bool changed() const { return changed_; }
  size_t size() const { return size_; }
  size_t read() const { return at_; }
  PathRelaxations relaxed() const { return relaxed_; }

 private:
  const char* step() {
    const char c = in_[at_];
    if (c == '%') return escape();
    ++at_;
    if (c == '/') return end_segment(false);
    if (c == '\\') return backslash();
    if (!is_visible(static_cast<uint8_t>(c)) || c == '#') return error_of(c);
    out_[size_++] = c;
    return nullptr;
  }

  const char* escape() {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const int high = at_ + 2 < in_.size() ? hex_value(in_[at_ + 1]) : -1;
    const int low = high < 0 ? -1 : hex_value(in_[at_ + 2]);
    if (low < 0) return "a % without two hexadecimal digits";
    const auto byte = static_cast<uint8_t>(high << 4 | low);
    const char written[] = {'%', kDigits[high], kDigits[low]};
    const bool lower = in_[at_ + 1] != written[1] || in_[at_ + 2] != written[2];
    at_ += 3;
    if (byte == 0) return "an escaped NUL";
    if (is_unreserved(byte)) {
      changed_ = true;
      out_[size_++] = static_cast<char>(byte);
      return nullptr;
    }
    if (byte == '/' || byte == '\\') {
      if (rules_.escaped_slashes == EscapedSlashes::kReject) return "an escaped slash or backslash";
      relaxed_.escaped_slashes = true;
      if (rules_.escaped_slashes == EscapedSlashes::kDecode) {
        changed_ = true;
        return end_segment(false);
      }
      if (const char* error = end_part()) return error;
    }
    changed_ = changed_ || lower;
    std::memcpy(out_ + size_, written, sizeof written);
    size_ += sizeof written;
    if (byte == '/' || byte == '\\') part_ = size_;
    return nullptr;
  }

  const char* backslash() {
    if (!rules_.allow_backslashes) return "a backslash";
    relaxed_.backslashes = true;
    if (const char* error = end_part()) return error;
    out_[size_++] = '\\';
    part_ = size_;
    return nullptr;
  }

  // Ends a part of a segment at a separator that is kept, because some servers treat it as a slash.
  const char* end_part() {
    const Dots dots = dots_of({out_ + part_, size_ - part_});
    if (dots == Dots::kOne || dots == Dots::kTwo) return kDotsBesideSeparator;
    return dots == Dots::kWithParameters ? dot_parameters() : nullptr;
  }

  const char* dot_parameters() {
    if (!rules_.allow_dot_parameters) return "a dot segment with parameters";
    relaxed_.dot_parameters = true;
    return nullptr;
  }

  // Ends a segment at a slash, or at the end of the path if `last`.
  const char* end_segment(bool last) {
    const Dots dots = dots_of({out_ + part_, size_ - part_});
    if (dots == Dots::kOne || dots == Dots::kTwo) return dot_segment(dots);
    if (dots == Dots::kWithParameters) {
      if (const char* error = dot_parameters()) return error;
    }
    if (last) return nullptr;
    if (rules_.merge_slashes && size_ == segment_) {
      changed_ = relaxed_.merged_slashes = true;
      return nullptr;
    }
    out_[size_++] = '/';
    segment_ = part_ = size_;
    return nullptr;
  }

  // Drops a dot segment. The output then ends with the slash before it, which also replaces the one after it.
  const char* dot_segment(Dots dots) {
    if (part_ != segment_) return kDotsBesideSeparator;
    if (dots == Dots::kTwo) {
      if (segment_ == 1) return "a dot segment that leads out of the root";
      segment_ = std::string_view(out_, segment_ - 1).rfind('/') + 1;
    }
    size_ = part_ = segment_;
    changed_ = true;
    return nullptr;
  }

  static constexpr const char* kDotsBesideSeparator = "a dot segment beside a backslash or an escaped slash";

  const std::string_view in_;
  const config::Paths& rules_;
  char* const out_;
  size_t at_ = 0;       // Bytes read.
  size_t size_ = 0;     // Bytes written; never more than at_.
  size_t segment_ = 0;  // The start of the current segment in out_.
  size_t part_ = 0;     // The start of its last part, after a separator that was kept.
  bool changed_ = false;
  PathRelaxations relaxed_;
};

CanonicalTarget invalid(const char* error) { return {.error = error}; }

}  // namespace

CanonicalTarget canonical_target(std::string_view target, const config::Paths& rules, std::span<char> scratch) {
  if (target == "*") return {.status = PathStatus::kSame, .target = target, .path_bytes = 1};
  if (!target.starts_with('/')) return invalid("no slash at its beginning");
  const size_t plain = plain_bytes(target);
  if (plain == target.size() || target[plain] == '?') {
    if (const char* error = query_error(target.substr(plain))) return invalid(error);
    return {.status = PathStatus::kSame, .target = target, .path_bytes = plain};
  }
  SLUICE_CHECK(scratch.size() >= target.size());
  Rewriter path(target, rules, scratch.data());
  if (const char* error = path.run(plain)) return invalid(error);
  const std::string_view query = target.substr(path.read());
  if (const char* error = query_error(query)) return invalid(error);
  if (!path.changed()) {
    return {.status = PathStatus::kSame, .target = target, .path_bytes = path.read(), .relaxed = path.relaxed()};
  }
  query.copy(scratch.data() + path.size(), query.size());
  return {.status = PathStatus::kChanged,
          .target = {scratch.data(), path.size() + query.size()},
          .path_bytes = path.size(),
          .relaxed = path.relaxed()};
}

std::string_view canonical_host(std::string_view authority, std::span<char> scratch) {
  std::string_view host;
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    host = authority.substr(0, bracket == std::string_view::npos ? bracket : bracket + 1);
  } else {
    host = authority.substr(0, authority.find(':'));
    if (host.ends_with('.')) host.remove_suffix(1);
  }
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (std::none_of(host.begin(), host.end(), is_upper)) return host;
  SLUICE_CHECK(scratch.size() >= host.size());
  std::transform(host.begin(), host.end(), scratch.begin(),
                 [&](char c) { return is_upper(c) ? static_cast<char>(c | 0x20) : c; });
  return {scratch.data(), host.size()};
}

}  // namespace sluice
