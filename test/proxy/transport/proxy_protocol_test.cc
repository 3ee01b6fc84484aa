#include "proxy/transport/proxy_protocol.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "test/support/buffers.h"

namespace sluice {
namespace {

using test::from_hex;
using test::heap_buffer_of;
using test::splits_every;

// ---- Building headers ----

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr size_t kProxy = 0x21, kLocal = 0x20;
constexpr size_t kUnspec = 0x00, kTcp4 = 0x11, kTcp6 = 0x21, kUnixStream = 0x31;

std::string u8(size_t value) { return std::string(1, static_cast<char>(value)); }
std::string u16(size_t value) { return u8(value >> 8 & 0xff) + u8(value & 0xff); }
std::string v2(size_t command, size_t family, const std::string& body) {
  return kSignature + u8(command) + u8(family) + u16(body.size()) + body;
}
std::string tlv(size_t type, const std::string& value) { return u8(type) + u16(value.size()) + value; }

const std::string kBody4 = from_hex("c0000201 c6336402 dbdc 01bb");  // 192.0.2.1:56284 to 198.51.100.2:443

PeerAddress ip(const std::string& text, uint16_t port) {
  std::array<std::byte, 16> bytes;
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return PeerAddress::ip4(std::span(bytes).first<4>(), port);
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), bytes.data()), 1) << text;
  return PeerAddress::ip6(bytes, port);
}
PeerAddress unix_socket(const std::string& path) { return PeerAddress::unix_socket(std::as_bytes(std::span(path))); }

// ---- Reading ----

std::string describe(const PeerAddress& address) {
  if (!address.is_set()) return "none";
  if (address.family() == AF_UNIX) {
    const std::span<const std::byte> bytes = address.address_bytes();
    std::string path(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!path.empty() && path.front() == '\0') return "unix:@" + path.substr(1);
    return "unix:" + path.substr(0, path.find('\0'));
  }
  char text[INET6_ADDRSTRLEN];
  inet_ntop(address.family(), address.address_bytes().data(), text, sizeof(text));
  return std::string(text) + " " + std::to_string(address.port());
}

std::string describe(const Buffer& buffer, const ProxyHeader& header) {
  std::string text = header.version == ProxyVersion::kV1 ? "v1 " : "v2 ";
  text += describe(header.source) + " to " + describe(header.destination);
  const auto add = [&](const char* name, ProxyField field) {
    std::string value(field.size, '\0');
    EXPECT_EQ(buffer.copy_out(field.offset, std::as_writable_bytes(std::span(value))), field.size);
    if (field.size > 0) text += std::string(" ") + name + "=" + value;
  };
  add("alpn", header.alpn);
  add("authority", header.authority);
  add("unique_id", header.unique_id);
  return text;
}

struct Parsed {
  ProxyResult result{};
  std::string text;  // Status, and the contents of a complete header.
};

Parsed parse(const std::string& bytes, std::span<const size_t> splits = {}) {
  const Buffer buffer = heap_buffer_of(bytes, splits);
  ProxyHeader header;
  Parsed parsed{.result = parse_proxy_header(buffer, header)};
  switch (parsed.result.status) {
    case ProxyStatus::kNeedMore:
      parsed.text = "need more";
      break;
    case ProxyStatus::kComplete:
      parsed.text = "complete " + std::to_string(parsed.result.bytes) + " " + describe(buffer, header);
      break;
    case ProxyStatus::kNotProxy:
      parsed.text = "not PROXY";
      break;
    case ProxyStatus::kMalformed:
      parsed.text = "malformed";
      break;
  }
  return parsed;
}

struct Case {
  const char* name;
  std::string bytes;
  std::string text;  // After status and size.
};

const std::vector<Case>& good_headers() {
  static const std::vector<Case> cases = {
      // The spec, section 2.1.
      {"v1 example", "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "v1 192.168.0.1 56324 to 192.168.0.11 443"},
      {"v1 longest TCP4", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
       "v1 255.255.255.255 65535 to 255.255.255.255 65535"},
      {"v1 longest TCP6",
       "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
       "v1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 to ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535"},
      {"v1 short UNKNOWN", "PROXY UNKNOWN\r\n", "v1 none to none"},
      {"v1 longest UNKNOWN",
       "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
       "v1 none to none"},
      {"v1 UNKNOWN with anything", "PROXY UNKNOWN  nothing that makes sense\r\n", "v1 none to none"},
      {"v1 ports of 0", "PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", "v1 0.0.0.0 0 to 0.0.0.0 0"},
      {"v1 TCP6", "PROXY TCP6 2001:DB8::1 ::ffff:192.0.2.1 1 2\r\n", "v1 2001:db8::1 1 to ::ffff:192.0.2.1 2"},
      // Sent by HAProxy 2.6.
      {"v1 by HAProxy",
       from_hex("50524f58592054435034203132372e302e302e31203132372e302e302e3120343233393820373130310d0a"),
       "v1 127.0.0.1 42398 to 127.0.0.1 7101"},
      {"v1 over IPv6 by HAProxy", from_hex("50524f58592054435036203a3a31203a3a3120343031383620373130320d0a"),
       "v1 ::1 40186 to ::1 7102"},
      {"v2 by HAProxy", from_hex("0d0a0d0a000d0a515549540a2111000c7f0000017f000001936e1bbf"),
       "v2 127.0.0.1 37742 to 127.0.0.1 7103"},
      {"v2 over IPv6 with CRC by HAProxy",
       from_hex(
           "0d0a0d0a000d0a515549540a2121002b00000000000000000000000000000001000000000000000000000000000000018d6a1bc0"
           "030004793e7138"),
       "v2 ::1 36202 to ::1 7104"},
      {"v2 with CRC and unique ID by HAProxy",
       from_hex("0d0a0d0a000d0a515549540a211100447f0000017f000001d3161bc10300042d0097c405002e37463030303030313a44333136"
                "5f37463030303030313a314243315f36423031384445385f303030343a33413239"),
       "v2 127.0.0.1 54038 to 127.0.0.1 7105 unique_id=7F000001:D316_7F000001:1BC1_6B018DE8_0004:3A29"},
      {"v2 health check by HAProxy", from_hex("0d0a0d0a000d0a515549540a20000000"), "v2 none to none"},
      {"v2 from a Unix socket by HAProxy", from_hex("0d0a0d0a000d0a515549540a20000007030004a9b87e8f"),
       "v2 none to none"},
      // Version 2, section 2.2.
      {"v2 TCP4", v2(kProxy, kTcp4, kBody4), "v2 192.0.2.1 56284 to 198.51.100.2 443"},
      {"v2 TCP6",
       v2(kProxy, kTcp6, from_hex("20010db8000000000000000000000001 20010db8000000000000000000000002 0001 ffff")),
       "v2 2001:db8::1 1 to 2001:db8::2 65535"},
      {"v2 Unix", v2(kProxy, kUnixStream, "/run/a.sock" + std::string(97, '\0') + std::string(108, 'x')),
       "v2 unix:/run/a.sock to unix:" + std::string(108, 'x')},
      {"v2 Unix, abstract and unnamed",
       v2(kProxy, kUnixStream, std::string("\0ab\0c", 5) + std::string(103, '\0') + std::string(108, '\0')),
       "v2 unix:@" + std::string("ab\0c", 4) + " to unix:"},
      {"v2 Unix, rubbish behind the path's end",
       v2(kProxy, kUnixStream, std::string("/a\0x", 4) + std::string(104, 'y') + "/b" + std::string(106, '\0')),
       "v2 unix:/a to unix:/b"},
      {"v2 unspecified", v2(kProxy, kUnspec, ""), "v2 none to none"},
      {"v2 unspecified with a body", v2(kProxy, kUnspec, "whatever"), "v2 none to none"},
      {"v2 unspecified family", v2(kProxy, 0x01, ""), "v2 none to none"},
      {"v2 unspecified transport", v2(kProxy, 0x10, "abc"), "v2 none to none"},
      {"v2 local with addresses", v2(kLocal, kTcp4, kBody4), "v2 none to none"},
      {"v2 local, any family", v2(kLocal, 0xff, "x"), "v2 none to none"},
      {"v2 TLVs",
       v2(kProxy, kTcp4,
          kBody4 + tlv(0x04, "pad") + tlv(0x01, "h2") + tlv(0xea, std::string(300, 'v')) + tlv(0x02, "example.com") +
              tlv(0x05, std::string(128, 'u')) + tlv(0x30, "") + tlv(0x30, "")),
       "v2 192.0.2.1 56284 to 198.51.100.2 443 alpn=h2 authority=example.com unique_id=" + std::string(128, 'u')},
      {"v2 of the largest size", v2(kProxy, kTcp4, kBody4 + tlv(0x04, std::string(4096 - 12 - 3, '\0'))),
       "v2 192.0.2.1 56284 to 198.51.100.2 443"},
  };
  return cases;
}

TEST(ProxyProtocolTest, ReadsHeaders) {
  for (const auto& [name, bytes, text] : good_headers()) {
    const std::string expected = "complete " + std::to_string(bytes.size()) + " " + text;
    EXPECT_EQ(parse(bytes).text, expected) << name;
    EXPECT_EQ(parse(bytes + "GET / HTTP/1.1\r\n\r\n").text, expected) << name;
  }
  EXPECT_EQ(good_headers()[4].bytes.size(), kMaxProxyV1Bytes);
  EXPECT_EQ(good_headers().back().bytes.size(), kMaxProxyV2Bytes);
}

TEST(ProxyProtocolTest, SplitsDoNotMatter) {
  for (const auto& [name, bytes, text] : good_headers()) {
    const std::string expected = "complete " + std::to_string(bytes.size()) + " " + text;
    const size_t step = bytes.size() > 1000 ? 13 : 1;
    for (size_t split = 1; split < bytes.size(); split += step) {
      ASSERT_EQ(parse(bytes + "GET", {{split}}).text, expected) << name << " at " << split;
    }
    EXPECT_EQ(parse(bytes, splits_every(1, bytes.size())).text, expected) << name;
    EXPECT_EQ(parse(bytes, splits_every(5, bytes.size())).text, expected) << name;
  }
}

TEST(ProxyProtocolTest, EachTruncationNeedsMore) {
  for (const auto& [name, bytes, text] : good_headers()) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      const ProxyResult result = parse(bytes.substr(0, size)).result;
      ASSERT_EQ(result.status, ProxyStatus::kNeedMore) << name << " of " << size;
      ASSERT_GT(result.bytes, size) << name;
      ASSERT_LE(result.bytes, bytes.size()) << name;
    }
  }
}

TEST(ProxyProtocolTest, OtherBytesAreRefusedAtOnce) {
  for (const std::string bytes :
       {"G", "proxy", "PRI * HTTP/2.0", "PROXz", "P\r", "\n", "\r\n\r\r", "\r\n\r\nQ", "\x16\x03\x01", "\r\rPROXY"}) {
    EXPECT_EQ(parse(bytes).text, "not PROXY") << bytes;
  }
  EXPECT_EQ(parse(kSignature.substr(0, 11) + "\r").text, "not PROXY");
  EXPECT_EQ(parse(std::string(1, '\0')).text, "not PROXY");
}

TEST(ProxyProtocolTest, RefusesMalformedV1) {
  const std::vector<std::string> lines = {
      "PROXYTCP4 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY\r\n",
      "PROXY \r\n",
      "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY / HTTP/1.1\r\n",
      "PROXY\tTCP4 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY UNKNOWNX\r\n",
      "PROXY unknown\r\n",
      "PROXY TCP4\r\n",
      "PROXY TCP4 1.2.3.4\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
      "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4  1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1  2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 00\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 999999999999999999999\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 0x1\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2a\r\n",
      "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4.5 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4. 1.2.3.4 1 2\r\n",
      "PROXY TCP4 16909060 1.2.3.4 1 2\r\n",
      "PROXY TCP4 0x1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP4 ::1 ::1 1 2\r\n",
      "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
      "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP6 ::1 1.2.3.4 1 2\r\n",
      "PROXY TCP6 [::1] ::1 1 2\r\n",
      "PROXY TCP6 fe80::1%lo ::1 1 2\r\n",
      "PROXY TCP6 1::2::3 ::1 1 2\r\n",
      "PROXY TCP6 1:2:3:4:5:6:7 ::1 1 2\r\n",
      "PROXY TCP6 1:2:3:4:5:6:7:8:9 ::1 1 2\r\n",
      "PROXY TCP6 00001::1 ::1 1 2\r\n",
      "PROXY TCP6 g::1 ::1 1 2\r\n",
      "PROXY TCP6 : ::1 1 2\r\n",
      "PROXY UNKNOWN\n",
      "PROXY UNKNOWN\r\r\n",
      "PROXY UNKNOWN a\nb\r\n",
      "PROXY UNKNOWN a\rb\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n\r\n",
      std::string("PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n", 33),
      std::string("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\0\r\n", 33),
      "PROXY UNKNOWN " + std::string(kMaxProxyV1Bytes - 14, 'x'),
      "PROXY UNKNOWN " + std::string(kMaxProxyV1Bytes - 15, 'x') + "\r\n",
  };
  for (const std::string& line : lines) {
    EXPECT_EQ(parse(line).text, "malformed") << line;
    EXPECT_EQ(parse(line, splits_every(1, line.size())).text, "malformed") << line;
    for (size_t size = 0; size < line.size(); ++size) {
      const std::string text = parse(line.substr(0, size)).text;
      ASSERT_TRUE(text == "need more" || text == "malformed") << line << " of " << size << ": " << text;
    }
  }
}

TEST(ProxyProtocolTest, RefusesMalformedV2) {
  const std::string crc_header = good_headers()[12].bytes;
  std::string flipped = crc_header;
  flipped[20] = static_cast<char>(flipped[20] ^ 1);  // In the destination address.
  std::string crc_flipped = crc_header;
  crc_flipped[31] = static_cast<char>(crc_flipped[31] ^ 0x80);
  const Case cases[] = {
      {"version 1", v2(0x11, kTcp4, kBody4), ""},
      {"version 3", v2(0x31, kTcp4, kBody4), ""},
      {"unknown command", v2(0x22, kTcp4, kBody4), ""},
      {"unknown family", v2(kProxy, 0x41, kBody4), ""},
      {"unknown transport", v2(kProxy, 0x13, kBody4), ""},
      {"unknown transport without a family", v2(kProxy, 0x03, ""), ""},
      {"datagrams", v2(kProxy, 0x12, kBody4), ""},
      {"datagrams over Unix", v2(kProxy, 0x32, std::string(216, 'x')), ""},
      {"half an IPv4 block", v2(kProxy, kTcp4, kBody4.substr(0, 11)), ""},
      {"half an IPv6 block", v2(kProxy, kTcp6, std::string(35, 'x')), ""},
      {"half a Unix block", v2(kProxy, kUnixStream, std::string(215, 'x')), ""},
      {"too large", v2(kProxy, kTcp4, kBody4 + tlv(0x04, std::string(4096 - 12 - 2, '\0'))), ""},
      {"too large and local", v2(kLocal, kUnspec, std::string(4097, 'x')), ""},
      {"one byte of a TLV", v2(kProxy, kTcp4, kBody4 + "x"), ""},
      {"two bytes of a TLV", v2(kProxy, kTcp4, kBody4 + tlv(0x04, "") + "xy"), ""},
      {"TLV beyond the header", v2(kProxy, kTcp4, kBody4 + u8(0x04) + u16(1)), ""},
      {"TLV far beyond the header", v2(kProxy, kTcp4, kBody4 + u8(0x04) + u16(0xffff) + "x"), ""},
      {"short CRC", v2(kProxy, kTcp4, kBody4 + tlv(0x03, "abc")), ""},
      {"long CRC", v2(kProxy, kTcp4, kBody4 + tlv(0x03, "abcde")), ""},
      {"wrong CRC", v2(kProxy, kTcp4, kBody4 + tlv(0x03, "abcd")), ""},
      {"address changed under a CRC", flipped, ""},
      {"CRC changed", crc_flipped, ""},
      {"two CRCs", v2(kProxy, kTcp4, kBody4 + tlv(0x03, "abcd") + tlv(0x03, "abcd")), ""},
      {"unique ID above 128 bytes", v2(kProxy, kTcp4, kBody4 + tlv(0x05, std::string(129, 'u'))), ""},
      {"two unique IDs", v2(kProxy, kTcp4, kBody4 + tlv(0x05, "") + tlv(0x05, "u")), ""},
      {"two authorities", v2(kProxy, kTcp4, kBody4 + tlv(0x02, "a") + tlv(0x02, "b")), ""},
      {"two ALPNs", v2(kProxy, kTcp4, kBody4 + tlv(0x01, "a") + tlv(0x01, "a")), ""},
  };
  ASSERT_NE(crc_header.find(std::string("\x03\x00\x04", 3)), std::string::npos);
  for (const auto& [name, bytes, unused] : cases) {
    EXPECT_EQ(parse(bytes).text, "malformed") << name;
    EXPECT_EQ(parse(bytes, splits_every(1, bytes.size())).text, "malformed") << name;
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string text = parse(bytes.substr(0, size)).text;
      ASSERT_TRUE(text == "need more" || text == "malformed") << name << " of " << size << ": " << text;
    }
  }
}

TEST(ProxyProtocolTest, InvalidPrefixesAreRefusedAtOnce) {
  EXPECT_EQ(parse(v2(kProxy, kTcp4, kBody4).substr(0, 16)).result.bytes, 28u);
  EXPECT_EQ(parse(v2(kProxy, 0x12, kBody4).substr(0, 16)).text, "malformed");
  EXPECT_EQ(parse(kSignature + u8(kLocal) + u8(kUnspec) + u16(0xffff)).text, "malformed");
  EXPECT_EQ(parse("PROXY UNKNOWN\n").text, "malformed");
  EXPECT_EQ(parse("PROXY" + std::string(102, 'x')).text, "malformed");
  EXPECT_EQ(parse("PROXY" + std::string(101, 'x')).text, "need more");
}

// ---- Writing ----

std::string write_v1(const PeerAddress& source, const PeerAddress& destination) {
  std::array<std::byte, kMaxWrittenProxyBytes> to;
  const size_t size = write_proxy_v1(to, source, destination);
  return std::string(reinterpret_cast<const char*>(to.data()), size);
}
std::string write_v2(const PeerAddress& source, const PeerAddress& destination) {
  std::array<std::byte, kMaxWrittenProxyBytes> to;
  const size_t size = write_proxy_v2(to, source, destination);
  return std::string(reinterpret_cast<const char*>(to.data()), size);
}

TEST(ProxyProtocolTest, WritesV1) {
  EXPECT_EQ(write_v1(ip("192.168.0.1", 56324), ip("192.168.0.11", 443)),
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
  EXPECT_EQ(write_v1(ip("2001:db8::1", 0), ip("::", 65535)), "PROXY TCP6 2001:db8::1 :: 0 65535\r\n");
  EXPECT_EQ(write_v1(ip("::ffff:192.0.2.1", 1), ip("::ffff:192.0.2.2", 2)), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
  EXPECT_EQ(write_v1(ip("::ffff:192.0.2.1", 1), ip("192.0.2.2", 2)), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
  EXPECT_EQ(write_v1(ip("192.0.2.1", 1), ip("2001:db8::1", 2)), "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n");
  EXPECT_EQ(write_v1(ip("2001:db8::1", 1), ip("192.0.2.1", 2)), "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 1 2\r\n");
  const std::string unknown = "PROXY UNKNOWN\r\n";
  EXPECT_EQ(write_v1(unix_socket(""), unix_socket("/run/a.sock")), unknown);
  EXPECT_EQ(write_v1(ip("192.0.2.1", 1), unix_socket("/run/a.sock")), unknown);
  EXPECT_EQ(write_v1(ip("192.0.2.1", 1), {}), unknown);
  EXPECT_EQ(write_v1({}, {}), unknown);
  const PeerAddress longest = ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535);
  EXPECT_EQ(write_v1(longest, longest).size(), 104u) << "the spec's figure";
}

TEST(ProxyProtocolTest, WritesV2) {
  EXPECT_EQ(write_v2(ip("192.0.2.1", 56284), ip("198.51.100.2", 443)), v2(kProxy, kTcp4, kBody4));
  EXPECT_EQ(write_v2(ip("::ffff:192.0.2.1", 56284), ip("198.51.100.2", 443)), v2(kProxy, kTcp4, kBody4));
  EXPECT_EQ(write_v2(ip("192.0.2.1", 1), ip("2001:db8::2", 2)),
            v2(kProxy, kTcp6, from_hex("00000000000000000000ffffc0000201 20010db8000000000000000000000002 0001 0002")));
  const std::string local = v2(kLocal, kUnspec, "");
  EXPECT_EQ(write_v2({}, {}), local);
  EXPECT_EQ(write_v2(ip("192.0.2.1", 1), {}), local);
  EXPECT_EQ(write_v2(unix_socket(""), unix_socket("/run/a.sock")), local) << "HAProxy refuses AF_UNIX";
  EXPECT_EQ(write_v2(unix_socket("/run/a.sock"), ip("192.0.2.1", 1)), local);
  EXPECT_EQ(write_v2(ip("2001:db8::1", 1), ip("2001:db8::2", 2)).size(), 52u);
}

PeerAddress random_address(std::mt19937& random, int family) {
  std::array<std::byte, 16> bytes;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const uint16_t port = static_cast<uint16_t>(random());
  if (family == AF_INET) return PeerAddress::ip4(std::span(bytes).first<4>(), port);
  // Runs of zeros, which the text form shortens.
  for (std::byte& byte : bytes) byte = random() % 3 == 0 ? byte : std::byte{0};
  if (family == AF_INET6) return PeerAddress::ip6(bytes, port);
  std::string path(random() % 120, '\0');
  for (char& c : path) c = static_cast<char>('a' + random() % 26);
  if (!path.empty() && random() % 2) path[0] = '\0';
  return unix_socket(path);
}

// Values that are too long are left out rather than cut.
TEST(ProxyProtocolTest, WritesTlsParameters) {
  const PeerAddress address = ip("2001:db8::1", 1);
  const std::string longest(ProxyTls::kMaxTextBytes, 'n'), too_long(ProxyTls::kMaxTextBytes + 1, 'n');
  for (const std::string& name : {longest, too_long}) {
    const ProxyTls tls{.version = name,
                       .cipher = name,
                       .authority = name,
                       .alpn = name,
                       .common_name = name,
                       .client_certificate = true,
                       .in_this_connection = true};
    std::array<std::byte, kMaxWrittenProxyBytes> to;
    const size_t size = write_proxy_v2(to, address, address, &tls);
    const Parsed parsed = parse(std::string(reinterpret_cast<const char*>(to.data()), size));
    const std::string names = name == longest ? " alpn=" + name + " authority=" + name : "";
    EXPECT_EQ(parsed.text, "complete " + std::to_string(size) + " v2 2001:db8::1 1 to 2001:db8::1 1" + names);
    // Without an address, receivers do not read the rest.
    EXPECT_EQ(write_proxy_v2(to, {}, {}, &tls), kProxyV2PrefixBytes);
  }
}

TEST(ProxyProtocolTest, RoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const int family = std::array{AF_INET, AF_INET6, AF_UNIX}[static_cast<size_t>(i % 3)];
    PeerAddress source = random_address(random, family), destination = random_address(random, family);
    for (const bool use_v2 : {false, true}) {
      const std::string bytes = use_v2 ? write_v2(source, destination) : write_v1(source, destination);
      const size_t split = random() % bytes.size();
      const Buffer buffer = heap_buffer_of(bytes + "payload", {{split}});
      ProxyHeader header;
      const ProxyResult result = parse_proxy_header(buffer, header);
      ASSERT_EQ(result.status, ProxyStatus::kComplete) << bytes;
      ASSERT_EQ(result.bytes, bytes.size());
      ASSERT_EQ(header.version, use_v2 ? ProxyVersion::kV2 : ProxyVersion::kV1);
      const bool expressed = family != AF_UNIX;
      ASSERT_EQ(header.source, expressed ? source : PeerAddress()) << bytes;
      ASSERT_EQ(header.destination, expressed ? destination : PeerAddress()) << bytes;
    }
  }
}

TEST(PeerAddressTest, UnixNamesAreThoseOfTheKernel) {
  const size_t path_offset = offsetof(sockaddr_un, sun_path);
  EXPECT_EQ(unix_socket("").length, path_offset);
  EXPECT_EQ(unix_socket("/a").length, path_offset + 3);
  EXPECT_EQ(unix_socket(std::string("\0a", 2)).length, path_offset + 2);
  EXPECT_EQ(unix_socket(std::string(107, 'a')).length, path_offset + 108);
  EXPECT_EQ(unix_socket(std::string(108, 'a')).length, path_offset + 108);
  EXPECT_EQ(unix_socket(std::string(109, 'a')).length, path_offset + 108);
  EXPECT_EQ(unix_socket(std::string(108, '\0')).length, path_offset);
  EXPECT_EQ(unix_socket("/a").family(), AF_UNIX);
  EXPECT_EQ(unix_socket("/a").port(), 0);
  EXPECT_TRUE(unix_socket("").address_bytes().empty());
}

TEST(PeerAddressTest, CopiesAndCompares) {
  const PeerAddress address = ip("192.0.2.1", 80);
  EXPECT_EQ(PeerAddress::copy_of(address.data(), address.length), address);
  EXPECT_EQ(address.port(), 80);
  EXPECT_NE(address, ip("192.0.2.1", 81));
  EXPECT_NE(address, ip("192.0.2.2", 80));
  EXPECT_NE(address, address.mapped());
  EXPECT_EQ(address.mapped(), ip("::ffff:192.0.2.1", 80));
  EXPECT_EQ(address.mapped().unmapped(), address);
  EXPECT_EQ(address.unmapped(), address);
  EXPECT_EQ(ip("2001:db8::1", 1).unmapped(), ip("2001:db8::1", 1));
  EXPECT_EQ(unix_socket("/a").mapped(), unix_socket("/a"));
  EXPECT_EQ(PeerAddress().family(), AF_UNSPEC);
  EXPECT_EQ(PeerAddress::copy_of(nullptr, 0), PeerAddress());
  EXPECT_FALSE(PeerAddress().is_set());
}

}  // namespace
}  // namespace sluice
