#include "alts_like/client_hello.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sluice/cursor.h"

namespace sluice {
namespace {

// RFC 8446 section 5.1.
constexpr size_t kRecordHeaderBytes = 5;
constexpr uint8_t kHandshakeRecord = 22;
constexpr size_t kMaxRecordBytes = 1 << 14;
// Common to SSL 3.0 and all TLS versions (RFC 8446 section 5.1 and appendix D).
constexpr uint8_t kMajorVersion = 3;
constexpr uint16_t kTls12 = 0x0303;

// RFC 8446 section 4.
constexpr size_t kMessageHeaderBytes = 4;
constexpr uint8_t kClientHelloMessage = 1;

// RFC 8446 section 4.1.2.
constexpr size_t kRandomBytes = 32;
constexpr uint8_t kMaxSessionIdBytes = 32;

// Extension types: RFC 6066, 7301, 8446, 9849.
constexpr uint16_t kServerNameExtension = 0;
constexpr uint16_t kAlpnExtension = 16;
constexpr uint16_t kSupportedVersionsExtension = 43;
constexpr uint16_t kEchExtension = 0xfe0d;

constexpr uint8_t kHostName = 0;           // RFC 6066 section 3
constexpr size_t kMaxHostLabelBytes = 63;  // RFC 1035 section 2.3.4

// The records received so far that carry a hello.
struct Records {
  HelloResult result;
  size_t message_bytes;  // Includes the message header. Valid only with kComplete.
};

Records records_of(HelloStatus status, size_t bytes = 0, size_t message_bytes = 0) {
  return {{status, bytes}, message_bytes};
}

// Reads a record header. With kComplete, the record's payload has `length` bytes.
HelloStatus read_record_header(Cursor& cursor, bool first, size_t& length) {
  // A peer that has sent a handshake record speaks TLS, whatever follows.
  const HelloStatus wrong = first ? HelloStatus::kNotTls : HelloStatus::kMalformed;
  const uint8_t type = cursor.u8();
  if (!cursor.ok()) return HelloStatus::kNeedMore;
  if (type != kHandshakeRecord) return wrong;
  const uint8_t major = cursor.u8();
  if (!cursor.ok()) return HelloStatus::kNeedMore;
  if (major != kMajorVersion) return wrong;
  cursor.skip(1);  // The minor version "MUST be ignored for all purposes".
  length = cursor.u16be();
  if (!cursor.ok()) return HelloStatus::kNeedMore;
  return length == 0 || length > kMaxRecordBytes ? HelloStatus::kMalformed : HelloStatus::kComplete;
}

// Walks the record headers until the whole message is known to have arrived.
Records find_records(const Buffer& buffer) {
  Cursor cursor(buffer);
  size_t end = 0;   // The end of the records walked so far.
  size_t seen = 0;  // The message's bytes in these records.
  size_t message_bytes = 0;
  for (;;) {
    size_t left_in_record = 0;
    const HelloStatus status = read_record_header(cursor, end == 0, left_in_record);
    if (status == HelloStatus::kNeedMore) {
      // The first header is awaited byte by byte, so that other protocols are detected at once.
      if (end == 0) return records_of(status, buffer.size() + 1);
      const size_t known_bytes = seen < kMessageHeaderBytes ? kMessageHeaderBytes : message_bytes;
      return records_of(status, end + kRecordHeaderBytes + known_bytes - seen);
    }
    if (status != HelloStatus::kComplete) return records_of(status);
    end += kRecordHeaderBytes + left_in_record;

    for (; seen < kMessageHeaderBytes && left_in_record > 0; ++seen, --left_in_record) {
      const uint8_t byte = cursor.u8();
      if (!cursor.ok()) return records_of(HelloStatus::kNeedMore, buffer.size() + 1);
      if (seen == 0 && byte != kClientHelloMessage) return records_of(HelloStatus::kMalformed);
      if (seen > 0) message_bytes = message_bytes << 8 | byte;
      if (seen + 1 == kMessageHeaderBytes) message_bytes += kMessageHeaderBytes;
    }
    if (seen < kMessageHeaderBytes) continue;

    seen += left_in_record;
    // Nothing may follow the hello in its record: before the server's response, a client may send more only under other
    // keys, which require a new record.
    if (seen > message_bytes) return records_of(HelloStatus::kMalformed);
    const size_t missing = message_bytes - seen;
    const size_t least_end = missing > 0 ? end + kRecordHeaderBytes + missing : end;
    if (least_end > kMaxClientHelloBytes) return records_of(HelloStatus::kTooLarge);
    if (end > buffer.size()) return records_of(HelloStatus::kNeedMore, least_end);
    if (missing == 0) return records_of(HelloStatus::kComplete, end, message_bytes);
    cursor.skip(left_in_record);
  }
}

// Reads the message inside the records and skips their headers. All records must have arrived. A read past the end of
// the message, or of the innermost entered vector, returns 0 and makes `ok()` false for good.
class MessageReader {
 public:
  MessageReader(const Buffer& buffer, size_t message_bytes) : cursor_(buffer), left_(message_bytes) {}

  bool ok() const { return ok_; }
  // Bytes left in the innermost entered vector; 0 after a failure, so that loops end.
  size_t left() const { return left_; }

  uint8_t u8() {
    std::byte b[1];
    return read(b) ? static_cast<uint8_t>(b[0]) : uint8_t{0};
  }
  uint16_t u16() {
    std::byte b[2];
    if (!read(b)) return 0;
    return static_cast<uint16_t>(static_cast<unsigned>(b[0]) << 8 | static_cast<unsigned>(b[1]));
  }
  bool read(std::span<std::byte> to) { return advance(to.size(), to.data()); }
  bool skip(size_t count) { return advance(count, nullptr); }

  // Enters a vector: limits reads to the next `count` bytes. Returns the argument for leave().
  size_t enter(size_t count) {
    if (count > left_) return fail(), 0;
    const size_t outside = left_ - count;
    left_ = count;
    return outside;
  }
  // Returns to the outer vector. Fails unless the inner one was read to its end.
  void leave(size_t outside) {
    if (left_ > 0) fail();
    if (ok_) left_ = outside;
  }

 private:
  bool fail() {
    left_ = 0;
    return ok_ = false;
  }
  bool advance(size_t count, std::byte* to) {
    if (!ok_ || count > left_) return fail();
    left_ -= count;
    while (count > 0) {
      if (left_in_record_ == 0) {
        cursor_.skip(kRecordHeaderBytes - 2);
        left_in_record_ = cursor_.u16be();
      }
      const size_t piece = std::min(count, left_in_record_);
      if (to) {
        cursor_.read({to, piece});
        to += piece;
      } else {
        cursor_.skip(piece);
      }
      count -= piece;
      left_in_record_ -= piece;
    }
    return true;
  }

  Cursor cursor_;
  size_t left_;
  size_t left_in_record_ = 0;
  bool ok_ = true;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

// Four decimal numbers up to 255. Other forms that some libraries accept as IPv4 addresses are host names here.
bool is_ipv4(std::string_view text) {
  int parts = 0;
  while (parts < 4) {
    unsigned value = 0;
    size_t digits = 0;
    for (; digits < text.size() && is_digit(text[digits]); ++digits) {
      value = value * 10 + static_cast<unsigned>(text[digits] - '0');
      if (value > 255) return false;
    }
    if (digits == 0) return false;
    text.remove_prefix(digits);
    ++parts;
    if (parts < 4) {
      if (!text.starts_with('.')) return false;
      text.remove_prefix(1);
    }
  }
  return text.empty();
}

// Anything that looks like an IPv6 address, with or without brackets. No host name has a colon, so this is unambiguous.
bool is_ipv6(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  const auto fits = [](char c) { return is_hex(c) || c == ':' || c == '.'; };
  return text.find(':') != std::string_view::npos && std::all_of(text.begin(), text.end(), fits);
}

// Labels of letters, digits, hyphens and underscores, which occur in practice.
bool is_host_name(std::string_view name) {
  size_t label_bytes = 0;
  for (const char c : name) {
    if (c == '.') {
      if (label_bytes == 0) return false;
      label_bytes = 0;
    } else if (is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_') {
      if (++label_bytes > kMaxHostLabelBytes) return false;
    } else {
      return false;
    }
  }
  return label_bytes > 0;
}

HelloStatus parse_server_name(MessageReader& reader, ClientHello& hello) {
  std::array<char, kMaxServerNameBytes + 1> name;  // With room for a trailing dot.
  const size_t list = reader.enter(reader.u16());
  if (reader.u8() != kHostName) return HelloStatus::kMalformed;
  const size_t size = reader.u16();
  if (size == 0 || size > name.size()) return HelloStatus::kMalformed;
  reader.read(std::as_writable_bytes(std::span(name).first(size)));
  // The list has one entry: host_name is the only type defined, and each type may occur once.
  reader.leave(list);
  if (!reader.ok()) return HelloStatus::kMalformed;

  for (char& c : std::span(name).first(size)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  std::string_view text(name.data(), size);
  if (is_ipv4(text) || is_ipv6(text)) return HelloStatus::kComplete;
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.size() > kMaxServerNameBytes || !is_host_name(text)) return HelloStatus::kMalformed;
  std::copy(text.begin(), text.end(), hello.server_name_bytes.begin());
  hello.server_name_size = static_cast<uint8_t>(text.size());
  return HelloStatus::kComplete;
}

// Both bytes of a GREASE value are the same: 0x0a, 0x1a ... 0xfa (RFC 8701 section 2).
bool is_grease(std::string_view alpn) { return alpn.size() == 2 && alpn[0] == alpn[1] && (alpn[0] & 0x0f) == 0x0a; }

HelloStatus parse_alpn(MessageReader& reader, ClientHello& hello) {
  const size_t list = reader.enter(reader.u16());
  if (reader.left() == 0) return HelloStatus::kMalformed;
  while (reader.left() > 0) {
    const uint8_t size = reader.u8();
    if (size == 0 || size > reader.left()) return HelloStatus::kMalformed;
    char* name = hello.alpn.add(size);
    if (!name) return HelloStatus::kTooLarge;
    reader.read(std::as_writable_bytes(std::span(name, size)));
    if (is_grease({name, size})) hello.alpn.drop_last(size);
  }
  reader.leave(list);
  return reader.ok() ? HelloStatus::kComplete : HelloStatus::kMalformed;
}

HelloStatus parse_supported_versions(MessageReader& reader, ClientHello& hello) {
  const size_t list = reader.enter(reader.u8());
  if (reader.left() == 0) return HelloStatus::kMalformed;
  hello.highest_version = 0;  // The list overrides legacy_version (RFC 8446 section 4.2.1).
  while (reader.left() > 0) {
    const uint16_t version = reader.u16();
    // Skips GREASE (0x0a0a ... 0xfafa) and drafts (0x7fxx).
    if (version >> 8 == kMajorVersion) hello.highest_version = std::max(hello.highest_version, version);
  }
  reader.leave(list);
  return reader.ok() ? HelloStatus::kComplete : HelloStatus::kMalformed;
}

// The parsed extensions that have occurred. Others may occur twice here; the server will reject that.
struct Seen {
  bool server_name = false;
  bool alpn = false;
  bool supported_versions = false;
};

// Parses the entered extension. None may occur twice (RFC 8446 section 4.2): another parser might use the other one.
HelloStatus parse_extension(uint16_t type, MessageReader& reader, Seen& seen, ClientHello& hello) {
  const auto twice = [](bool& flag) { return std::exchange(flag, true); };
  switch (type) {
    case kServerNameExtension:
      return twice(seen.server_name) ? HelloStatus::kMalformed : parse_server_name(reader, hello);
    case kAlpnExtension:
      return twice(seen.alpn) ? HelloStatus::kMalformed : parse_alpn(reader, hello);
    case kSupportedVersionsExtension:
      return twice(seen.supported_versions) ? HelloStatus::kMalformed : parse_supported_versions(reader, hello);
    case kEchExtension:
      if (twice(hello.has_ech)) return HelloStatus::kMalformed;
      [[fallthrough]];
    default:
      reader.skip(reader.left());
      return HelloStatus::kComplete;
  }
}

HelloStatus parse_extensions(MessageReader& reader, ClientHello& hello) {
  Seen seen;
  const size_t list = reader.enter(reader.u16());
  while (reader.left() > 0) {
    const uint16_t type = reader.u16();
    const size_t extension = reader.enter(reader.u16());
    if (!reader.ok()) return HelloStatus::kMalformed;
    const HelloStatus status = parse_extension(type, reader, seen, hello);
    if (status != HelloStatus::kComplete) return status;
    reader.leave(extension);
  }
  reader.leave(list);
  return HelloStatus::kComplete;
}

HelloStatus parse_message(MessageReader& reader, ClientHello& hello) {
  reader.skip(kMessageHeaderBytes);
  const uint16_t version = reader.u16();
  if (version >> 8 != kMajorVersion) return HelloStatus::kMalformed;
  // Without supported_versions, TLS 1.2 is the highest version that can be negotiated (RFC 8446 section 4.2.1).
  hello.highest_version = std::min(version, kTls12);
  reader.skip(kRandomBytes);
  const uint8_t session_id_bytes = reader.u8();
  if (session_id_bytes > kMaxSessionIdBytes) return HelloStatus::kMalformed;
  reader.skip(session_id_bytes);
  const uint16_t cipher_suites_bytes = reader.u16();
  if (cipher_suites_bytes == 0 || cipher_suites_bytes % 2 != 0) return HelloStatus::kMalformed;
  reader.skip(cipher_suites_bytes);
  const uint8_t compression_methods = reader.u8();
  if (compression_methods == 0) return HelloStatus::kMalformed;
  reader.skip(compression_methods);
  if (!reader.ok()) return HelloStatus::kMalformed;

  // Up to TLS 1.2, a hello may have no extensions (RFC 5246 section 7.4.1.2).
  if (reader.left() > 0) {
    const HelloStatus status = parse_extensions(reader, hello);
    if (status != HelloStatus::kComplete) return status;
  }
  return reader.ok() && reader.left() == 0 ? HelloStatus::kComplete : HelloStatus::kMalformed;
}

}  // namespace

bool AlpnList::contains(std::string_view protocol) const { return std::find(begin(), end(), protocol) != end(); }

char* AlpnList::add(uint8_t name_bytes) {
  if (size_ + size_t{1} + name_bytes > bytes_.size()) return nullptr;
  char* at = bytes_.data() + size_;
  *at = static_cast<char>(name_bytes);
  size_ = static_cast<uint16_t>(size_ + 1 + name_bytes);
  return at + 1;
}

HelloResult parse_client_hello(const Buffer& buffer, ClientHello& hello) {
  const Records records = find_records(buffer);
  if (records.result.status != HelloStatus::kComplete) return records.result;
  hello = {};
  MessageReader reader(buffer, records.message_bytes);
  const HelloStatus status = parse_message(reader, hello);
  if (status != HelloStatus::kComplete) return {status, 0};
  return records.result;
}

}  // namespace sluice
