#include "proxy/log/access_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>

#include "pool/check.h"

namespace sluice {

namespace {

// What a text takes at most, escaped.
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxUserAgent = 1024;
constexpr size_t kMaxAuthority = 512;
constexpr size_t kMaxName = 160;  // Addresses and configured names. 108 bytes is the longest path of a Unix socket.
constexpr size_t kMaxWord = 32;   // What comes from a small set, mostly.

constexpr size_t kTimeBytes = sizeof("[2026-01-02T03:04:05.678Z]") - 1;
constexpr size_t kNumberBytes = 20;  // Of 64 bits.
constexpr size_t kFields = 15;       // Separators and quotes: 4 bytes each are more than enough.
static_assert(kTimeBytes + kMaxPath + kMaxUserAgent + kMaxAuthority + 4 * kMaxName + 4 * kMaxWord + 5 * kNumberBytes +
                  4 * kFields <=
              kMaxAccessLineBytes);

// In which texts a space stays what it is.
enum class Spaces : uint8_t { kEscaped, kKept };

constexpr bool is_plain(char c, Spaces spaces) {
  return c > (spaces == Spaces::kKept ? '\x1f' : ' ') && c < '\x7f' && c != '"' && c != '\\';
}

// Whether is_plain holds for each of eight characters. Each term's high bits tell of one kind that is not plain,
// rightly for the lowest of them in the word; above that one they may tell of others.
template <Spaces kSpaces>
inline bool all_plain(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
  constexpr uint64_t kFirst = kSpaces == Spaces::kKept ? 0x20 : 0x21;
  const uint64_t beyond_ascii = word, deleted = word + kOnes, control = word - kFirst * kOnes;
  const uint64_t quote = (word ^ ('"' * kOnes)) - kOnes, backslash = (word ^ ('\\' * kOnes)) - kOnes;
  return ((beyond_ascii | deleted | control | quote | backslash) & kHighs) == 0;
}

// Copies eight characters, if they are plain.
template <Spaces kSpaces>
[[gnu::always_inline]] inline bool copy_eight(const char* from, char* to) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  if (!all_plain<kSpaces>(word)) return false;
  std::memcpy(to, &word, sizeof word);
  return true;
}

// Copies as many plain characters from the beginning of `text` as are found eight at a time; maybe there are more.
template <Spaces kSpaces>
size_t copy_plain(std::string_view text, char* to) {
  const char* const from = text.data();
  const size_t size = text.size();
  if (size >= 8) {
    size_t done = 0;
    for (; done + 8 <= size; done += 8) {
      if (!copy_eight<kSpaces>(from + done, to + done)) return done;
    }
    return copy_eight<kSpaces>(from + size - 8, to + size - 8) ? size : done;
  }
  if (size < 4) return 0;
  uint32_t front, back;  // They overlap.
  std::memcpy(&front, from, sizeof front);
  std::memcpy(&back, from + size - 4, sizeof back);
  if (!all_plain<kSpaces>(uint64_t{back} << 32 | front)) return 0;
  std::memcpy(to, &front, sizeof front);
  std::memcpy(to + size - 4, &back, sizeof back);
  return size;
}

// What the line is written with. Nobody counts the room as it goes: the bounds above have.
class Line {
 public:
  explicit Line(char* at) : at_(at) {}
  char* end() const { return at_; }

  void raw(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void number(uint64_t value) { at_ = std::to_chars(at_, at_ + kNumberBytes, value).ptr; }

  // `text` escaped, in at most `max` bytes: what does not fit is replaced by `...`.
  template <Spaces kSpaces = Spaces::kEscaped>
  void text(std::string_view text, size_t max) {
    if (text.empty()) return raw("-");
    constexpr std::string_view kCut = "...";
    char* const limit = at_ + max;
    char* const last_cut = limit - kCut.size();
    const size_t plain = copy_plain<kSpaces>(text.substr(0, max - kCut.size()), at_);
    at_ += plain;
    char* cut = at_;  // Where the mark goes if it comes to that.
    for (const char c : text.substr(plain)) {
      if (at_ <= last_cut) cut = at_;
      const bool as_it_is = is_plain(c, kSpaces);
      if (limit - at_ < (as_it_is ? 1 : 4)) {
        at_ = cut;
        return raw(kCut);
      }
      as_it_is ? void(*at_++ = c) : hex(c);
    }
  }

  void time(int64_t ms);

 private:
  // As nginx writes it.
  void hex(char c) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<uint8_t>(c);
    const char escaped[4] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    raw({escaped, sizeof escaped});
  }

  char* at_;
};

// The second that this thread wrote last, as text.
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

void Line::time(int64_t ms) {
  ms = std::clamp<int64_t>(ms, 0, int64_t{253'402'300'799'999});  // To the end of the year 9999.
  if (ms / 1000 != second.value) set_second(ms / 1000);
  std::memcpy(at_, second.text.data(), second.text.size());
  digits(at_ + second.text.size(), 3, ms % 1000);
  at_ += second.text.size() + 3;
  *at_++ = 'Z';
}

}  // namespace

size_t format_access_line(const AccessRecord& record, std::span<char> out) {
  SLUICE_DCHECK(out.size() >= kMaxAccessLineBytes);
  Line line(out.data());
  line.raw("[");
  line.time(record.time_ms);
  line.raw("] \"");
  line.text(record.method, kMaxWord);
  line.raw(" ");
  line.text(record.path, kMaxPath);
  line.raw(" ");
  line.text(record.protocol, kMaxWord);
  line.raw("\" ");
  line.number(record.status);
  line.raw(" ");
  line.text(record.reason, kMaxWord);
  line.raw(" ");
  line.number(record.request_bytes);
  line.raw(" ");
  line.number(record.response_bytes);
  line.raw(" ");
  line.number(record.duration_us);
  line.raw(" ");
  record.upstream_us ? line.number(*record.upstream_us) : line.raw("-");
  line.raw(" ");
  line.text(record.client, kMaxName);
  line.raw(" ");
  line.text(record.listener, kMaxName);
  line.raw(" ");
  line.text(record.tls, kMaxWord);
  line.raw(" ");
  line.text(record.upstream, kMaxName);
  line.raw(" ");
  line.text(record.endpoint, kMaxName);
  line.raw(" \"");
  line.text(record.authority, kMaxAuthority);
  line.raw("\" \"");
  line.text<Spaces::kKept>(record.user_agent, kMaxUserAgent);
  line.raw("\"\n");
  return static_cast<size_t>(line.end() - out.data());
}

}  // namespace sluice
