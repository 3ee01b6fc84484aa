#include "proxy/resolve/srv_answer.h"

#include <ares.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sluice {

namespace {

// RFC 1035 sections 3.2 and 4.1, RFC 2782.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kQuestionBytes = 4;
constexpr size_t kRecordBytes = 10;
constexpr size_t kSrvBytes = 6;
constexpr uint16_t kTypeSrv = 33;
constexpr uint16_t kClassIn = 1;

// Reads a message sequentially. After a failure all further reads fail.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> message) : message_(message) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  uint16_t u16() {
    const std::span<const uint8_t> bytes = take(2);
    return ok_ ? static_cast<uint16_t>(bytes[0] << 8 | bytes[1]) : 0;
  }
  uint32_t u32() {
    const uint32_t high = u16();
    return high << 16 | u16();
  }
  void skip(size_t bytes) { take(bytes); }

  /// Reads a name, which may be compressed: c-ares follows the pointers within the message, and rejects loops.
  std::string name() {
    if (!ok_ || at_ >= message_.size()) return fail();
    char* text = nullptr;
    long bytes = 0;  // NOLINT(google-runtime-int): c-ares has it.
    const int status =
        ares_expand_name(message_.data() + at_, message_.data(), static_cast<int>(message_.size()), &text, &bytes);
    if (status != ARES_SUCCESS) return fail();
    std::string name(text);
    ares_free_string(text);
    skip(static_cast<size_t>(bytes));
    return name;
  }

 private:
  std::span<const uint8_t> take(size_t bytes) {
    if (!ok_ || bytes > message_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += bytes;
    return message_.subspan(at_ - bytes, bytes);
  }
  std::string fail() {
    ok_ = false;
    return {};
  }

  std::span<const uint8_t> message_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<SrvAnswer> parse_srv_answer(std::span<const uint8_t> message) {
  if (message.size() < kHeaderBytes || message.size() > UINT16_MAX) return std::nullopt;
  Reader reader(message);
  reader.skip(4);
  const uint16_t questions = reader.u16(), answers = reader.u16();
  reader.skip(4);
  for (uint16_t i = 0; i < questions && reader.ok(); ++i) {
    reader.name();
    reader.skip(kQuestionBytes);
  }
  SrvAnswer result;
  result.ttl_s = UINT32_MAX;
  for (uint16_t i = 0; i < answers && reader.ok() && result.records.size() < kMaxSrvRecords; ++i) {
    reader.name();
    static_assert(kRecordBytes == 2 + 2 + 4 + 2);
    const uint16_t type = reader.u16(), record_class = reader.u16();
    const uint32_t ttl_s = reader.u32();
    const uint16_t bytes = reader.u16();
    const size_t end = reader.at() + bytes;
    if (!reader.ok() || end > message.size()) return std::nullopt;
    // A TTL with the highest bit set counts as 0 (RFC 2181 section 8).
    result.ttl_s = std::min(result.ttl_s, ttl_s > INT32_MAX ? 0 : ttl_s);
    if (type == kTypeSrv && record_class == kClassIn) {
      if (bytes <= kSrvBytes) return std::nullopt;
      SrvRecord record{.priority = reader.u16(), .weight = reader.u16(), .port = reader.u16(), .target = reader.name()};
      if (!reader.ok() || reader.at() != end) return std::nullopt;
      if (!record.target.empty() && record.port != 0) result.records.push_back(std::move(record));
    } else {
      reader.skip(bytes);
    }
  }
  if (!reader.ok()) return std::nullopt;
  if (result.ttl_s == UINT32_MAX) result.ttl_s = 0;
  return result;
}

}  // namespace sluice
