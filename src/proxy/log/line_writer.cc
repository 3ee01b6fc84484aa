#include "proxy/log/line_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>

#include "proxy/common/characters.h"
#include "proxy/common/utf8.h"

namespace sluice {

namespace {

constexpr bool is_plain(char c, Spaces spaces) {
  return c > (spaces == Spaces::kKept ? '\x1f' : ' ') && c < '\x7f' && c != '"' && c != '\\';
}

using SignedCharacters [[gnu::vector_size(16)]] = signed char;

// Whether is_plain() holds for each of sixteen characters.
template <Spaces kSpaces>
[[gnu::always_inline]] inline bool all_plain(Characters text) {
  // As signed numbers and with 1 added, all that is not ASCII, DEL and control characters are below this.
  constexpr signed char kFirst = kSpaces == Spaces::kKept ? 0x21 : 0x22;
  const SignedCharacters special =
      (std::bit_cast<SignedCharacters>(text + 1) < kFirst) | (text == '"') | (text == '\\');
  const auto [low, high] = std::bit_cast<std::array<uint64_t, 2>>(special);
  return (low | high) == 0;
}

template <typename Word>
[[gnu::always_inline]] inline Word load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Copies sixteen characters if all of them are plain.
template <Spaces kSpaces>
[[gnu::always_inline]] inline bool copy_sixteen(const char* from, char* to) {
  const auto text = load<Characters>(from);
  if (!all_plain<kSpaces>(text)) return false;
  std::memcpy(to, &text, sizeof text);
  return true;
}

// Copies plain characters from the beginning of `text`, sixteen at a time, and returns their number. More plain
// characters may follow. What is shorter is read as two words that overlap.
template <Spaces kSpaces>
[[gnu::always_inline]] inline size_t copy_plain(std::string_view text, char* to) {
  const char* const from = text.data();
  const size_t size = text.size();
  if (size >= 16) {
    size_t done = 0;
    for (; done + 16 <= size; done += 16) {
      if (!copy_sixteen<kSpaces>(from + done, to + done)) return done;
    }
    if (done == size) return size;
    return copy_sixteen<kSpaces>(from + size - 16, to + size - 16) ? size : done;
  }
  if (size >= 8) {
    const std::array words{load<uint64_t>(from), load<uint64_t>(from + size - 8)};
    if (!all_plain<kSpaces>(std::bit_cast<Characters>(words))) return 0;
    std::memcpy(to, &words[0], 8);
    std::memcpy(to + size - 8, &words[1], 8);
    return size;
  }
  if (size >= 4) {
    const auto front = load<uint32_t>(from), back = load<uint32_t>(from + size - 4);
    const std::array words{uint64_t{back} << 32 | front, uint64_t{back} << 32 | front};
    if (!all_plain<kSpaces>(std::bit_cast<Characters>(words))) return 0;
    std::memcpy(to, &front, sizeof front);
    std::memcpy(to + size - 4, &back, sizeof back);
    return size;
  }
  size_t done = 0;
  for (; done < size && is_plain(from[done], kSpaces); ++done) to[done] = from[done];
  return done;
}

// Marks the place where a text was cut.
constexpr std::string_view kCut = "...";

// Writes `text`, of which `plain` characters are at `at` already, with `write(rest, at, room)`, which removes the first
// character from `rest`, writes it to `at`, and returns the bytes written; or does nothing and returns 0 if `room` is
// too small.
template <class Write>
[[gnu::noinline]] char* write_rest(std::string_view text, size_t plain, char* at, size_t max, Write write) {
  char* const limit = at + max;
  char* const last_cut = limit - kCut.size();
  at += plain;
  text.remove_prefix(plain);
  char* cut = at;  // Where kCut goes if the text does not fit.
  while (!text.empty()) {
    if (at <= last_cut) cut = at;
    const size_t written = write(text, at, static_cast<size_t>(limit - at));
    if (written == 0) return std::copy(kCut.begin(), kCut.end(), cut);
    at += written;
  }
  return at;
}

// The same, from the beginning. Nearly all texts are short and plain.
template <Spaces kSpaces, class Write>
[[gnu::always_inline]] inline char* write_text(std::string_view text, char* at, size_t max, Write write) {
  const size_t plain = copy_plain<kSpaces>(text.substr(0, max - kCut.size()), at);
  if (plain == text.size()) [[likely]]
    return at + plain;
  return write_rest(text, plain, at, max, write);
}

constexpr char kCapitalDigits[] = "0123456789ABCDEF";

// Writes one character, escaped as nginx does.
template <Spaces kSpaces>
size_t write_escaped(std::string_view& text, char* at, size_t room) {
  const char c = text.front();
  const size_t size = is_plain(c, kSpaces) ? 1 : 4;
  if (room < size) return 0;
  text.remove_prefix(1);
  if (size == 1) {
    *at = c;
  } else {
    const auto byte = static_cast<uint8_t>(c);
    const char escaped[] = {'\\', 'x', kCapitalDigits[byte >> 4], kCapitalDigits[byte & 15]};
    std::memcpy(at, escaped, size);
  }
  return size;
}

// Writes one character of a JSON string (RFC 8259 section 7).
size_t write_json(std::string_view& text, char* at, size_t room) {
  const char c = text.front();
  const size_t taken = std::max<size_t>(utf8_bytes(text), 1);
  std::array<char, 6> escaped;
  std::string_view written = text.substr(0, taken);
  if (c == '"' || c == '\\') {
    escaped = {'\\', c};
    written = {escaped.data(), 2};
  } else if (static_cast<uint8_t>(c) < ' ' || c == '\x7f') {
    escaped = {'\\', 'u', '0', '0', kCapitalDigits[c >> 4], kCapitalDigits[c & 15]};
    written = {escaped.data(), 6};
  } else if (utf8_bytes(text) == 0) {
    written = "\xef\xbf\xbd";  // U+FFFD
  }
  if (room < written.size()) return 0;
  text.remove_prefix(taken);
  std::memcpy(at, written.data(), written.size());
  return written.size();
}

// The second that this thread formatted last, as text.
struct Second {
  int64_t value = INT64_MIN;
  std::array<char, 20> text{};  // "2026-01-02T03:04:05."
};
constinit thread_local Second second;

template <typename Number>
void digits(char* at, int count, Number value) {
  for (auto rest = static_cast<unsigned>(value); count-- > 0; rest /= 10)
    at[count] = static_cast<char>('0' + rest % 10);
}

void set_second(int64_t value) {
  using std::chrono::sys_days, std::chrono::sys_seconds, std::chrono::seconds, std::chrono::floor, std::chrono::days;
  const sys_seconds time{seconds(value)};
  const sys_days day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const auto of_day = static_cast<unsigned>((time - day).count());
  char* const at = second.text.data();
  std::memcpy(at, "0000-00-00T00:00:00.", second.text.size());
  digits(at, 4, static_cast<int>(date.year()));
  digits(at + 5, 2, static_cast<unsigned>(date.month()));
  digits(at + 8, 2, static_cast<unsigned>(date.day()));
  digits(at + 11, 2, of_day / 3600);
  digits(at + 14, 2, of_day / 60 % 60);
  digits(at + 17, 2, of_day % 60);
  second.value = value;
}

// Clamps the time to years of four digits, and sets `second` to its second.
int64_t find_second(int64_t ms) {
  ms = std::clamp<int64_t>(ms, 0, int64_t{253'402'300'799'999});
  if (ms / 1000 != second.value) set_second(ms / 1000);
  return ms;
}

}  // namespace

template <Spaces kSpaces>
void LineWriter::text(std::string_view text, size_t max) {
  if (text.empty()) return raw("-");
  at_ = write_text<kSpaces>(text, at_, max, write_escaped<kSpaces>);
}
template void LineWriter::text<Spaces::kEscaped>(std::string_view text, size_t max);
template void LineWriter::text<Spaces::kKept>(std::string_view text, size_t max);

void LineWriter::json_text(std::string_view text, size_t max) {
  at_ = write_text<Spaces::kKept>(text, at_, max, write_json);
}

void LineWriter::long_number(uint64_t value) {
  if (value >= 100'000'000) {
    at_ = std::to_chars(at_, at_ + LineLimits::kNumber, value).ptr;
    return;
  }
  const auto rest = static_cast<uint32_t>(value % 10'000);
  number(value / 10'000);
  two_digits(rest / 100);
  two_digits(rest % 100);
}

void LineWriter::time(int64_t ms) {
  ms = find_second(ms);
  std::memcpy(at_, second.text.data(), second.text.size());
  digits(at_ + second.text.size(), 3, ms % 1000);
  at_ += second.text.size() + 3;
  *at_++ = 'Z';
}

void LineWriter::clf_time(int64_t ms) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  find_second(ms);
  const std::string_view text(second.text.data(), second.text.size());
  const auto month = static_cast<size_t>((text[5] - '0') * 10 + text[6] - '0');
  raw(text.substr(8, 2));
  raw("/");
  raw(kMonths.substr((month - 1) * 3, 3));
  raw("/");
  raw(text.substr(0, 4));
  raw(":");
  raw(text.substr(11, 8));
  raw(" +0000");
}

}  // namespace sluice
