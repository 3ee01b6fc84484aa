#include "proxy/transport/proxy_protocol.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "sluice/cursor.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

using std::string_view_literals::operator""sv;

// Constants: the spec, sections 2.1 and 2.2.
constexpr std::string_view kV1Signature = "PROXY";
constexpr std::string_view kV2Signature = "\r\n\r\n\0\r\nQUIT\n"sv;
static_assert(kV2Signature.size() == 12);
constexpr uint8_t kV2 = 2;

enum class Command : uint8_t { kLocal = 0, kProxy = 1 };
enum class Family : uint8_t { kUnspec = 0, kInet = 1, kInet6 = 2, kUnix = 3 };
enum class Transport : uint8_t { kUnspec = 0, kStream = 1, kDatagram = 2 };

// TLV types. There are more, and senders may define their own.
constexpr uint8_t kAlpnTlv = 0x01;
constexpr uint8_t kAuthorityTlv = 0x02;
constexpr uint8_t kCrc32cTlv = 0x03;
constexpr uint8_t kUniqueIdTlv = 0x05;
constexpr uint8_t kTlsTlv = 0x20;
constexpr uint8_t kTlsVersionTlv = 0x21;  // Nested in kTlsTlv, like the next two.
constexpr uint8_t kTlsCommonNameTlv = 0x22;
constexpr uint8_t kTlsCipherTlv = 0x23;

// Bits of kTlsTlv's `client`.
constexpr uint8_t kClientTls = 0x01;
constexpr uint8_t kClientCertificateInConnection = 0x02;
constexpr uint8_t kClientCertificateInSession = 0x04;

constexpr size_t kTlvHeaderBytes = 3;
constexpr size_t kCrcBytes = 4;
constexpr size_t kMaxUniqueIdBytes = 128;  // Section 2.2.5.

// Source and destination address, then both ports.
constexpr size_t address_block_bytes(Family family) {
  switch (family) {
    case Family::kInet:
      return size_t{2} * (4 + 2);
    case Family::kInet6:
      return size_t{2} * (16 + 2);
    case Family::kUnix:
      return 2 * PeerAddress::kUnixPathBytes;
    case Family::kUnspec:
      break;
  }
  return 0;
}

ProxyResult malformed() { return {ProxyStatus::kMalformed, 0}; }

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- Version 1 ----

// Removes the first word and the space after it from `text` and returns the word; nullopt without a space.
std::optional<std::string_view> take_word(std::string_view& text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(space + 1);
  return word;
}

// Decimal, without a sign or leading zeros.
std::optional<uint16_t> parse_port(std::string_view text) {
  if (text.empty() || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<PeerAddress> parse_address(int family, std::string_view text, uint16_t port) {
  // inet_pton is strict (no leading zeros, no zone), but it stops at a NUL byte.
  char name[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof(name) || text.find('\0') != std::string_view::npos) return std::nullopt;
  name[text.copy(name, sizeof(name))] = '\0';
  std::array<std::byte, 16> bytes;
  if (inet_pton(family, name, bytes.data()) != 1) return std::nullopt;
  if (family == AF_INET) return PeerAddress::ip4(std::span(bytes).first<4>(), port);
  return PeerAddress::ip6(bytes, port);
}

// `line` is the text between the signature and the CRLF.
bool parse_v1_line(std::string_view line, ProxyHeader& header) {
  if (!line.starts_with(' ')) return false;
  line.remove_prefix(1);
  // "The receiver must ignore anything presented before the CRLF is found."
  if (line == "UNKNOWN" || line.starts_with("UNKNOWN ")) return true;
  const std::optional<std::string_view> protocol = take_word(line);
  if (protocol != "TCP4" && protocol != "TCP6") return false;
  const int family = protocol == "TCP4" ? AF_INET : AF_INET6;

  const std::optional<std::string_view> source = take_word(line);
  const std::optional<std::string_view> destination = take_word(line);
  const std::optional<std::string_view> source_port_text = take_word(line);
  if (!source_port_text) return false;
  const std::optional<uint16_t> source_port = parse_port(*source_port_text);
  const std::optional<uint16_t> destination_port = parse_port(line);
  if (!source_port || !destination_port) return false;
  const std::optional<PeerAddress> from = parse_address(family, *source, *source_port);
  const std::optional<PeerAddress> to = parse_address(family, *destination, *destination_port);
  if (!from || !to) return false;
  header.source = *from;
  header.destination = *to;
  return true;
}

ProxyResult parse_v1(const Buffer& buffer, ProxyHeader& header) {
  std::array<std::byte, kMaxProxyV1Bytes> scratch;
  const std::string_view text = as_text(buffer.fetch(std::min(buffer.size(), scratch.size()), scratch));
  const size_t end = text.find_first_of("\r\n");
  // Neither character may occur without the other.
  if (end != std::string_view::npos && text[end] == '\n') return malformed();
  if (end == std::string_view::npos || end + 1 == text.size()) {
    if (text.size() == kMaxProxyV1Bytes) return malformed();
    return {ProxyStatus::kNeedMore, text.size() + 1};
  }
  if (text[end + 1] != '\n') return malformed();
  if (!parse_v1_line(text.substr(kV1Signature.size(), end - kV1Signature.size()), header)) return malformed();
  return {ProxyStatus::kComplete, end + 2};
}

// ---- Version 2 ----

// CRC-32C (RFC 4960 appendix B): the Castagnoli polynomial, bit-reversed.
constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

// The checksum of the first `header_bytes` bytes, with the checksum field itself taken as zeros.
uint32_t crc32c(const Buffer& buffer, size_t header_bytes, size_t crc_offset) {
  uint32_t crc = ~0u;
  size_t position = 0;
  for (size_t i = 0; position < header_bytes; ++i) {
    std::span<const std::byte> window = buffer.window(i);
    window = window.first(std::min(window.size(), header_bytes - position));
    for (std::byte byte : window) {
      if (position >= crc_offset && position < crc_offset + kCrcBytes) byte = std::byte{0};
      crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
      ++position;
    }
  }
  return ~crc;
}

void parse_addresses(Cursor& cursor, Family family, ProxyHeader& header) {
  if (family == Family::kInet) {
    std::array<std::byte, 4> source, destination;
    cursor.read(source), cursor.read(destination);
    header.source = PeerAddress::ip4(source, cursor.u16be());
    header.destination = PeerAddress::ip4(destination, cursor.u16be());
  } else if (family == Family::kInet6) {
    std::array<std::byte, 16> source, destination;
    cursor.read(source), cursor.read(destination);
    header.source = PeerAddress::ip6(source, cursor.u16be());
    header.destination = PeerAddress::ip6(destination, cursor.u16be());
  } else if (family == Family::kUnix) {
    std::array<std::byte, PeerAddress::kUnixPathBytes> path;
    cursor.read(path);
    header.source = PeerAddress::unix_socket(path);
    cursor.read(path);
    header.destination = PeerAddress::unix_socket(path);
  }
}

// The TLVs found in a header.
struct Tlvs {
  std::optional<ProxyField> alpn, authority, crc32c, unique_id;
};

// Records one TLV. False if it is not allowed: a field that we use may occur only once, because parsers could differ on
// which one counts.
bool note_tlv(uint8_t type, ProxyField field, Tlvs& tlvs) {
  const auto once = [field](std::optional<ProxyField>& slot) { return !std::exchange(slot, field).has_value(); };
  switch (type) {
    case kAlpnTlv:
      return once(tlvs.alpn);
    case kAuthorityTlv:
      return once(tlvs.authority);
    case kCrc32cTlv:
      return field.size == kCrcBytes && once(tlvs.crc32c);
    case kUniqueIdTlv:
      return field.size <= kMaxUniqueIdBytes && once(tlvs.unique_id);
    default:
      return true;
  }
}

bool parse_tlvs(const Buffer& buffer, Cursor& cursor, size_t header_bytes, ProxyHeader& header) {
  Tlvs tlvs;
  while (cursor.position() < header_bytes) {
    if (header_bytes - cursor.position() < kTlvHeaderBytes) return false;
    const uint8_t type = cursor.u8();
    const uint16_t size = cursor.u16be();
    if (size > header_bytes - cursor.position()) return false;
    if (!note_tlv(type, {static_cast<uint16_t>(cursor.position()), size}, tlvs)) return false;
    cursor.skip(size);
  }
  if (tlvs.crc32c) {
    const size_t offset = tlvs.crc32c->offset;
    if (Cursor(buffer, offset).u32be() != crc32c(buffer, header_bytes, offset)) return false;
  }
  header.alpn = tlvs.alpn.value_or(ProxyField{});
  header.authority = tlvs.authority.value_or(ProxyField{});
  header.unique_id = tlvs.unique_id.value_or(ProxyField{});
  return true;
}

ProxyResult parse_v2(const Buffer& buffer, ProxyHeader& header) {
  Cursor cursor(buffer, kV2Signature.size());
  const uint8_t version_and_command = cursor.u8();
  const uint8_t family_and_transport = cursor.u8();
  const uint16_t body_bytes = cursor.u16be();
  if (!cursor.ok()) return {ProxyStatus::kNeedMore, kProxyV2PrefixBytes};

  const Command command{static_cast<uint8_t>(version_and_command & 0x0f)};
  if (version_and_command >> 4 != kV2 || command > Command::kProxy) return malformed();
  const size_t header_bytes = kProxyV2PrefixBytes + body_bytes;
  if (header_bytes > kMaxProxyV2Bytes) return malformed();

  Family family{static_cast<uint8_t>(family_and_transport >> 4)};
  const Transport transport{static_cast<uint8_t>(family_and_transport & 0x0f)};
  if (command == Command::kLocal) {
    family = Family::kUnspec;  // "Discard the protocol block including the family which is ignored."
  } else {
    // The spec lets a receiver treat datagrams as unspecified; over a stream they can only be a mistake.
    if (family > Family::kUnix || transport > Transport::kStream) return malformed();
    if (transport == Transport::kUnspec) family = Family::kUnspec;
    if (body_bytes < address_block_bytes(family)) return malformed();
  }

  if (buffer.size() < header_bytes) return {ProxyStatus::kNeedMore, header_bytes};
  if (family != Family::kUnspec) {
    parse_addresses(cursor, family, header);
    if (!parse_tlvs(buffer, cursor, header_bytes, header)) return malformed();
  }
  return {ProxyStatus::kComplete, header_bytes};
}

// ---- Writing ----

// Two addresses converted to one family: IPv4, IPv6, or none.
struct Pair {
  Family family;
  PeerAddress source;
  PeerAddress destination;
};

Pair pair_of(const PeerAddress& source, const PeerAddress& destination) {
  const auto is_ip = [](const PeerAddress& address) {
    return address.family() == AF_INET || address.family() == AF_INET6;
  };
  if (is_ip(source) && is_ip(destination)) {
    const PeerAddress source4 = source.unmapped(), destination4 = destination.unmapped();
    if (source4.family() == AF_INET && destination4.family() == AF_INET) return {Family::kInet, source4, destination4};
    return {Family::kInet6, source.mapped(), destination.mapped()};
  }
  return {Family::kUnspec, {}, {}};
}

// Appends to a span that the caller has made large enough.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}

  size_t size() const { return size_; }
  void bytes(std::span<const std::byte> from) {
    SLUICE_CHECK(from.size() <= to_.size() - size_);
    std::copy(from.begin(), from.end(), to_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += from.size();
  }
  void text(std::string_view from) { bytes(std::as_bytes(std::span(from))); }
  void decimal(uint16_t value) {
    char digits[5];
    const auto result = std::to_chars(digits, digits + sizeof(digits), value);
    text({digits, static_cast<size_t>(result.ptr - digits)});
  }
  void u8(uint8_t value) { bytes(std::as_bytes(std::span(&value, 1))); }
  void u16be(uint16_t value) {
    u8(static_cast<uint8_t>(value >> 8));
    u8(static_cast<uint8_t>(value & 0xff));
  }
  /// Reserves a length field for fill_in_length() and returns its offset.
  size_t skip_u16() {
    u16be(0);
    return size_ - 2;
  }
  void fill_in_length(size_t at) {
    const size_t bytes = size_ - at - 2;
    to_[at] = static_cast<std::byte>(bytes >> 8);
    to_[at + 1] = static_cast<std::byte>(bytes & 0xff);
  }

 private:
  std::span<std::byte> to_;
  size_t size_ = 0;
};

void write_address_text(Writer& writer, const PeerAddress& address) {
  char name[INET6_ADDRSTRLEN];
  // Cannot fail: the family is valid and there is room.
  writer.text(inet_ntop(address.family(), address.address_bytes().data(), name, sizeof(name)));
}

void write_text_tlv(Writer& writer, uint8_t type, std::string_view text) {
  if (text.empty() || text.size() > ProxyTls::kMaxTextBytes) return;
  writer.u8(type);
  writer.u16be(static_cast<uint16_t>(text.size()));
  writer.text(text);
}

void write_tls(Writer& writer, const ProxyTls& tls) {
  write_text_tlv(writer, kAlpnTlv, tls.alpn);
  write_text_tlv(writer, kAuthorityTlv, tls.authority);
  writer.u8(kTlsTlv);
  const size_t length_at = writer.skip_u16();
  uint8_t client = kClientTls;
  if (tls.client_certificate) client |= kClientCertificateInSession;
  if (tls.client_certificate && tls.in_this_connection) client |= kClientCertificateInConnection;
  writer.u8(client);
  // The 32-bit `verify` field: 0 if the client presented a certificate, which was verified.
  writer.u16be(0);
  writer.u16be(tls.client_certificate ? 0 : 1);
  write_text_tlv(writer, kTlsVersionTlv, tls.version);
  write_text_tlv(writer, kTlsCommonNameTlv, tls.common_name);
  write_text_tlv(writer, kTlsCipherTlv, tls.cipher);
  writer.fill_in_length(length_at);
}

}  // namespace

ProxyResult parse_proxy_header(const Buffer& buffer, ProxyHeader& header) {
  std::array<std::byte, kV2Signature.size()> scratch;
  const std::string_view start = as_text(buffer.fetch(std::min(buffer.size(), scratch.size()), scratch));
  const bool is_v1 = start.starts_with(kV1Signature.substr(0, start.size()));
  const bool is_v2 = start == kV2Signature.substr(0, start.size());
  header = {};
  if (is_v1 && start.size() >= kV1Signature.size()) {
    header.version = ProxyVersion::kV1;
    return parse_v1(buffer, header);
  }
  if (is_v2 && start.size() == kV2Signature.size()) {
    header.version = ProxyVersion::kV2;
    return parse_v2(buffer, header);
  }
  if (is_v1 || is_v2) return {ProxyStatus::kNeedMore, buffer.size() + 1};
  return {ProxyStatus::kNotProxy, 0};
}

size_t write_proxy_v1(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination) {
  const Pair pair = pair_of(source, destination);
  Writer writer(to);
  if (pair.family == Family::kUnspec) {
    writer.text("PROXY UNKNOWN\r\n");
    return writer.size();
  }
  writer.text(pair.family == Family::kInet ? "PROXY TCP4 " : "PROXY TCP6 ");
  write_address_text(writer, pair.source);
  writer.text(" ");
  write_address_text(writer, pair.destination);
  writer.text(" ");
  writer.decimal(pair.source.port());
  writer.text(" ");
  writer.decimal(pair.destination.port());
  writer.text("\r\n");
  return writer.size();
}

size_t write_proxy_v2(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination, const ProxyTls* tls) {
  const Pair pair = pair_of(source, destination);
  // The spec has PROXY with AF_UNSPEC for addresses that cannot be expressed, but HAProxy (2.6) and others refuse it.
  // HAProxy itself sends LOCAL in this case.
  const bool known = pair.family != Family::kUnspec;
  const Command command = known ? Command::kProxy : Command::kLocal;
  const Transport transport = known ? Transport::kStream : Transport::kUnspec;
  Writer writer(to);
  writer.text(kV2Signature);
  writer.u8(static_cast<uint8_t>(kV2 << 4 | static_cast<int>(command)));
  writer.u8(static_cast<uint8_t>(static_cast<int>(pair.family) << 4 | static_cast<int>(transport)));
  const size_t length_at = writer.skip_u16();
  if (known) {
    writer.bytes(pair.source.address_bytes());
    writer.bytes(pair.destination.address_bytes());
    writer.u16be(pair.source.port());
    writer.u16be(pair.destination.port());
  }
  if (known && tls) write_tls(writer, *tls);  // Receivers ignore TLVs after LOCAL.
  writer.fill_in_length(length_at);
  return writer.size();
}

}  // namespace sluice
