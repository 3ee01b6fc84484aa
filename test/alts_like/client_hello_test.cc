#include "alts_like/client_hello.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test/alts_like/hello_captures.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using test::from_hex;
using test::heap_buffer_of;
using test::hello_captures;
using test::HelloCapture;
using test::splits_every;

// ---- Building hellos ----

std::string u8(size_t value) { return std::string(1, static_cast<char>(value)); }
std::string u16(size_t value) { return u8(value >> 8 & 0xff) + u8(value & 0xff); }
std::string u24(size_t value) { return u8(value >> 16) + u16(value & 0xffff); }
std::string vector8(const std::string& bytes) { return u8(bytes.size()) + bytes; }
std::string vector16(const std::string& bytes) { return u16(bytes.size()) + bytes; }

std::string extension(size_t type, const std::string& data) { return u16(type) + vector16(data); }
std::string server_name(const std::string& name) { return extension(0, vector16(u8(0) + vector16(name))); }
std::string alpn(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += vector8(name);
  return extension(16, vector16(list));
}
std::string versions(const std::vector<size_t>& list) {
  std::string bytes;
  for (const size_t version : list) bytes += u16(version);
  return extension(43, vector8(bytes));
}

// The fields of a hello, each with its own length.
struct Fields {
  std::string version = u16(0x0303);
  std::string random = std::string(32, 'r');
  std::string session_id = vector8("");
  std::string cipher_suites = vector16(u16(0x1301));
  std::string compression_methods = vector8(u8(0));
  std::string extensions = vector16("");

  std::string body() const { return version + random + session_id + cipher_suites + compression_methods + extensions; }
};

std::string message(const std::string& body, size_t type = 1) { return u8(type) + u24(body.size()) + body; }
std::string record(const std::string& payload, size_t type = 22, size_t version = 0x0301) {
  return u8(type) + u16(version) + vector16(payload);
}
// The message in records of `record_bytes`.
std::string records(const std::string& message, size_t record_bytes) {
  std::string bytes;
  for (size_t at = 0; at < message.size(); at += record_bytes) bytes += record(message.substr(at, record_bytes));
  return bytes;
}
std::string hello_of(const Fields& fields) { return record(message(fields.body())); }
std::string hello_with(const std::string& extensions) { return hello_of({.extensions = vector16(extensions)}); }

// The handshake message inside well-formed records.
std::string message_of(const std::string& hello) {
  std::string message;
  for (size_t at = 0; at < hello.size();) {
    const size_t size = static_cast<unsigned char>(hello[at + 3]) * 256u + static_cast<unsigned char>(hello[at + 4]);
    message += hello.substr(at + 5, size);
    at += 5 + size;
  }
  return message;
}

// ---- Reading them ----

const char* status_name(HelloStatus status) {
  switch (status) {
    case HelloStatus::kNeedMore:
      return "need more";
    case HelloStatus::kComplete:
      return "complete";
    case HelloStatus::kNotTls:
      return "not TLS";
    case HelloStatus::kMalformed:
      return "malformed";
    case HelloStatus::kTooLarge:
      return "too large";
  }
  return "?";
}

// The whole content of a hello, in one line.
std::string describe(const ClientHello& hello) {
  std::string text = "name=" + std::string(hello.server_name()) + " alpn=";
  for (std::string_view protocol : hello.alpn) text += std::string(protocol) + ",";
  return text + " version=" + std::to_string(hello.highest_version) + (hello.has_ech ? " ech" : "");
}

struct Parsed {
  HelloResult result{};
  std::string text;  // Status, and the contents of a complete hello.
};

Parsed parse(const std::string& bytes, std::span<const size_t> splits = {}) {
  const Buffer buffer = heap_buffer_of(bytes, splits);
  ClientHello hello;
  Parsed parsed{.result = parse_client_hello(buffer, hello)};
  parsed.text = status_name(parsed.result.status);
  if (parsed.result.status == HelloStatus::kComplete) {
    parsed.text += " " + std::to_string(parsed.result.bytes) + " " + describe(hello);
  }
  return parsed;
}

std::string expected_of(const HelloCapture& capture, size_t bytes) {
  std::string text = "complete " + std::to_string(bytes) + " name=" + std::string(capture.server_name) + " alpn=";
  for (std::string_view protocol : capture.alpn) text += std::string(protocol) + ",";
  return text + " version=" + std::to_string(capture.highest_version) + (capture.has_ech ? " ech" : "");
}

// Passes the hello byte by byte and calls the parser only as often as it requests. Returns the number of calls; `last`
// is the verdict.
int calls_byte_by_byte(const std::string& bytes, HelloResult& last) {
  int calls = 0;
  size_t wanted = 1;
  for (size_t size = 1; size <= bytes.size(); ++size) {
    if (size < wanted) continue;
    ClientHello hello;
    last = parse_client_hello(heap_buffer_of(bytes.substr(0, size)), hello);
    ++calls;
    if (last.status != HelloStatus::kNeedMore) return calls;
    EXPECT_GT(last.bytes, size);
    wanted = last.bytes;
  }
  return calls;
}

TEST(ClientHelloTest, ParsesHellosOfRealClients) {
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    EXPECT_EQ(parse(bytes).text, expected_of(capture, bytes.size())) << capture.name;
    EXPECT_EQ(parse(bytes + "what follows").text, expected_of(capture, bytes.size())) << capture.name;
  }
}

TEST(ClientHelloTest, CapturesCoverTheirCases) {
  size_t largest = 0, in_several_records = 0;
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    largest = std::max(largest, bytes.size());
    in_several_records += message_of(bytes).size() + 5 < bytes.size();
  }
  EXPECT_GT(largest, 1460u) << "a post-quantum hello that no one segment holds";
  EXPECT_EQ(in_several_records, 1u);
}

TEST(ClientHelloTest, AnySplitIntoTwoWindowsIsTheSame) {
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    for (size_t split = 1; split < bytes.size(); ++split) {
      ASSERT_EQ(parse(bytes, {{split}}).text, expected_of(capture, bytes.size())) << capture.name << " at " << split;
    }
  }
}

TEST(ClientHelloTest, PoolChunksAndSmallWindowsAreTheSame) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    for (const size_t window_bytes : {1u, 2u, 3u, 7u, 64u, 500u}) {
      const Buffer buffer = test::buffer_of(pool, bytes, splits_every(window_bytes, bytes.size()));
      ClientHello hello;
      EXPECT_EQ(parse_client_hello(buffer, hello).status, HelloStatus::kComplete);
      EXPECT_EQ(hello.server_name(), capture.server_name);
    }
  }
}

TEST(ClientHelloTest, EachTruncationNeedsMore) {
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const HelloResult result = parse(bytes.substr(0, size)).result;
      ASSERT_EQ(result.status, HelloStatus::kNeedMore) << capture.name << " of " << size;
      ASSERT_GT(result.bytes, size);
      ASSERT_LE(result.bytes, bytes.size());
    }
  }
}

TEST(ClientHelloTest, RecordBoundariesDoNotMatter) {
  for (const HelloCapture& capture : hello_captures()) {
    const std::string whole = message_of(from_hex(capture.hex));
    for (const size_t record_bytes : {1u, 2u, 3u, 4u, 5u, 6u, 41u, 100u, 512u, 16384u}) {
      const std::string bytes = records(whole, record_bytes);
      EXPECT_EQ(parse(bytes).text, expected_of(capture, bytes.size())) << capture.name << " by " << record_bytes;
      EXPECT_EQ(parse(bytes, splits_every(1, bytes.size())).text, expected_of(capture, bytes.size()));
    }
  }
}

TEST(ClientHelloTest, SlowHelloCostsFewCalls) {
  for (const HelloCapture& capture : hello_captures()) {
    const std::string bytes = from_hex(capture.hex);
    HelloResult last{};
    EXPECT_LE(calls_byte_by_byte(bytes, last), 12) << capture.name;
    EXPECT_EQ(last.status, HelloStatus::kComplete);
  }
  // The worst case: as long as allowed, one byte of message in each record.
  Fields fields;
  fields.extensions = vector16(extension(21, std::string(2660, '\0')));
  const std::string bytes = records(message(fields.body()), 1);
  ASSERT_GT(bytes.size(), kMaxClientHelloBytes - 200);
  ASSERT_LE(bytes.size(), kMaxClientHelloBytes);
  HelloResult last{};
  EXPECT_LE(calls_byte_by_byte(bytes, last), 64);
  EXPECT_EQ(last.status, HelloStatus::kComplete);
}

TEST(ClientHelloTest, OtherProtocolsAreDetectedAtOnce) {
  EXPECT_EQ(parse("").text, "need more");
  EXPECT_EQ(parse("").result.bytes, 1u);
  // HTTP, SSH, an alert record, application data, an SSL 2.0 hello (a length with the high bit, then its type).
  for (const std::string& start : {std::string("G"), std::string("S"), u8(21), u8(23), u8(0x80), u8(0)}) {
    EXPECT_EQ(parse(start).text, "not TLS") << start;
  }
  EXPECT_EQ(parse(u8(22)).text, "need more");
  EXPECT_EQ(parse(u8(22) + u8(2)).text, "not TLS");
  EXPECT_EQ(parse(u8(22) + u8(3)).text, "need more");
  EXPECT_EQ(parse(from_hex("802e 01 0301 0015 0000 0010")).text, "not TLS");
}

TEST(ClientHelloTest, Accepts) {
  const struct {
    const char* name;
    std::string bytes;
    std::string text;  // Without status and size.
  } cases[] = {
      {"no extensions at all (TLS 1.2)", hello_of({.extensions = ""}), "name= alpn= version=771"},
      {"empty list of extensions", hello_with(""), "name= alpn= version=771"},
      {"SSL 3.0", hello_of({.version = u16(0x0300), .extensions = ""}), "name= alpn= version=768"},
      {"a version field above 1.2 counts as 1.2", hello_of({.version = u16(0x0309)}), "name= alpn= version=771"},
      {"any minor version of the record", record(message(Fields{}.body()), 22, 0x03ff), "name= alpn= version=771"},
      {"session id of 32 bytes", hello_of({.session_id = vector8(std::string(32, 's'))}), "name= alpn= version=771"},
      {"upper case", hello_with(server_name("WWW.Example.COM")), "name=www.example.com alpn= version=771"},
      {"one label", hello_with(server_name("localhost")), "name=localhost alpn= version=771"},
      {"underscore, hyphens, digits", hello_with(server_name("_a-1.xn--4ca.0")),
       "name=_a-1.xn--4ca.0 alpn= version=771"},
      {"dot at the end", hello_with(server_name("example.com.")), "name=example.com alpn= version=771"},
      {"almost an IPv4 address", hello_with(server_name("1.2.3.256")), "name=1.2.3.256 alpn= version=771"},
      {"five numbers", hello_with(server_name("1.2.3.4.5")), "name=1.2.3.4.5 alpn= version=771"},
      {"IPv4 address", hello_with(server_name("192.0.2.1")), "name= alpn= version=771"},
      {"IPv6 address", hello_with(server_name("2001:DB8::1")), "name= alpn= version=771"},
      {"IPv6 address in brackets", hello_with(server_name("[::1]")), "name= alpn= version=771"},
      {"mapped address", hello_with(server_name("::ffff:192.0.2.1")), "name= alpn= version=771"},
      {"ALPN with GREASE", hello_with(alpn({"\x3a\x3a", "h2", "\xfa\xfa", "http/1.1"})),
       "name= alpn=h2,http/1.1, version=771"},
      {"ALPN of GREASE only", hello_with(alpn({"\x0a\x0a"})), "name= alpn= version=771"},
      {"ALPN that only looks like GREASE", hello_with(alpn({"\x0a\x1a", "bb", "\x3a\x3a\x3a"})),
       "name= alpn=\x0a\x1a,bb,\x3a\x3a\x3a, version=771"},
      {"longest ALPN name", hello_with(alpn({std::string(255, 'x')})),
       "name= alpn=" + std::string(255, 'x') + ", version=771"},
      {"versions", hello_with(versions({0x0303, 0x0304, 0x0302})), "name= alpn= version=772"},
      {"GREASE and drafts do not count", hello_with(versions({0xfafa, 0x7f1c, 0x0303})), "name= alpn= version=771"},
      {"no version that we know", hello_with(versions({0x2a2a})), "name= alpn= version=0"},
      {"ECH", hello_with(extension(0xfe0d, "sealed")), "name= alpn= version=771 ech"},
      {"unknown extensions, even twice", hello_with(extension(0x4a4a, "") + extension(0x4a4a, "x") + extension(99, "")),
       "name= alpn= version=771"},
  };
  for (const auto& [name, bytes, text] : cases) {
    EXPECT_EQ(parse(bytes).text, "complete " + std::to_string(bytes.size()) + " " + text) << name;
  }
}

TEST(ClientHelloTest, NameLengths) {
  const std::string label(63, 'a');
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  ASSERT_EQ(longest.size(), kMaxServerNameBytes);
  for (const std::string& name : {longest, longest + "."}) {
    const std::string bytes = hello_with(server_name(name));
    EXPECT_EQ(parse(bytes).text,
              "complete " + std::to_string(bytes.size()) + " name=" + longest + " alpn= version=771");
  }
  EXPECT_EQ(parse(hello_with(server_name(longest + "b"))).text, "malformed");
  EXPECT_EQ(parse(hello_with(server_name(longest + "b."))).text, "malformed");
  EXPECT_EQ(parse(hello_with(server_name(label + "a.com"))).text, "malformed");
}

TEST(ClientHelloTest, RefusesMalformedHellos) {
  const std::string good = message(Fields{}.body());
  const std::string name_entry = u8(0) + vector16("a.com");
  const struct {
    const char* name;
    std::string bytes;
  } cases[] = {
      {"empty record", from_hex("16 0301 0000")},
      {"record above 2^14", from_hex("16 0301 4001")},
      {"server hello", record(message(Fields{}.body(), 2))},
      {"message type alone", from_hex("16 0301 0100 02")},
      {"more in the record than the hello", record(good + "x")},
      {"two messages in one record", record(good + good)},
      {"other record inside the hello", record(good.substr(0, 20)) + record(good.substr(20), 23)},
      {"alert inside the hello", record(good.substr(0, 20)) + record("\x01\x5a", 21)},
      {"other major version inside the hello", record(good.substr(0, 20)) + record(good.substr(20), 22, 0x0201)},
      {"empty record inside the hello", record(good.substr(0, 20)) + record("") + record(good.substr(20))},
      {"message of 0 bytes", record(message(""))},
      {"ends in the random", record(message(Fields{}.body().substr(0, 20)))},
      {"ends before the extensions' length", record(message(Fields{}.body().substr(0, Fields{}.body().size() - 1)))},
      {"major version", hello_of({.version = u16(0x0403)})},
      {"DTLS version", hello_of({.version = u16(0xfefd)})},
      {"session id above 32", hello_of({.session_id = vector8(std::string(33, 's'))})},
      {"session id beyond the end", hello_of({.session_id = u8(32), .cipher_suites = "", .extensions = ""})},
      {"no cipher suites", hello_of({.cipher_suites = vector16("")})},
      {"odd cipher suites", hello_of({.cipher_suites = vector16("123")})},
      {"cipher suites beyond the end", hello_of({.cipher_suites = u16(0x1000)})},
      {"no compression methods", hello_of({.compression_methods = vector8("")})},
      {"compression methods beyond the end", hello_of({.compression_methods = u8(200)})},
      {"extensions beyond the end", hello_of({.extensions = u16(5)})},
      {"bytes after the extensions", hello_of({.extensions = vector16("") + "x"})},
      {"half an extension header", hello_with("abc")},
      {"extension beyond the list", hello_with(u16(99) + u16(1))},
      {"server_name without a list", hello_with(extension(0, ""))},
      {"server_name with an empty list", hello_with(extension(0, vector16("")))},
      {"server_name list beyond the extension", hello_with(extension(0, u16(9) + name_entry))},
      {"server_name list shorter than the extension", hello_with(extension(0, vector16(name_entry) + "x"))},
      {"empty name", hello_with(server_name(""))},
      {"name beyond the list", hello_with(extension(0, vector16(u8(0) + u16(6) + "a.com")))},
      {"two names", hello_with(extension(0, vector16(name_entry + name_entry)))},
      {"other name type", hello_with(extension(0, vector16(u8(1) + vector16("a.com"))))},
      {"other name type after the name", hello_with(extension(0, vector16(name_entry + u8(1) + vector16("x"))))},
      {"server_name twice", hello_with(server_name("a.com") + server_name("a.com"))},
      {"server_name twice, first an address", hello_with(server_name("10.0.0.1") + server_name("a.com"))},
      {"name is a dot", hello_with(server_name("."))},
      {"two dots at the end", hello_with(server_name("a.com.."))},
      {"dot in front", hello_with(server_name(".a.com"))},
      {"empty label", hello_with(server_name("a..com"))},
      {"wildcard", hello_with(server_name("*.a.com"))},
      {"space", hello_with(server_name("a b.com"))},
      {"zero byte", hello_with(server_name(std::string("a.com\0.b.com", 12)))},
      {"slash", hello_with(server_name("../../etc"))},
      {"line end", hello_with(server_name("a.com\r\nX"))},
      {"not ASCII", hello_with(server_name("\xc3\xa4.com"))},
      {"port", hello_with(server_name("a.com:443"))},
      {"zone", hello_with(server_name("fe80::1%eth0"))},
      {"ALPN without a list", hello_with(extension(16, ""))},
      {"ALPN with an empty list", hello_with(alpn({}))},
      {"ALPN with an empty name", hello_with(alpn({"h2", ""}))},
      {"ALPN name beyond the list", hello_with(extension(16, vector16(u8(3) + "h2")))},
      {"ALPN list beyond the extension", hello_with(extension(16, u16(4) + vector8("h2")))},
      {"ALPN list shorter than the extension", hello_with(extension(16, vector16(vector8("h2")) + "x"))},
      {"ALPN twice", hello_with(alpn({"h2"}) + alpn({"h2"}))},
      {"no versions", hello_with(versions({}))},
      {"half a version", hello_with(extension(43, vector8("\x03")))},
      {"versions beyond the extension", hello_with(extension(43, u8(4) + u16(0x0304)))},
      {"versions twice", hello_with(versions({0x0304}) + versions({0x0303}))},
      {"ECH twice", hello_with(extension(0xfe0d, "a") + extension(0xfe0d, "b"))},
  };
  for (const auto& [name, bytes] : cases) {
    EXPECT_EQ(parse(bytes).text, "malformed") << name;
    EXPECT_EQ(parse(bytes, splits_every(1, bytes.size())).text, "malformed") << name << ", byte by byte";
    EXPECT_EQ(parse(bytes).result.bytes, 0u) << name;
    // Every prefix of it is only incomplete.
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string text = parse(bytes.substr(0, size)).text;
      EXPECT_TRUE(text == "need more" || text == "malformed") << name << " of " << size << ": " << text;
    }
  }
}

TEST(ClientHelloTest, BoundsTheSize) {
  Fields fields;
  const size_t rest = 5 + 4 + Fields{}.body().size() + 4;  // All but the contents of one extension.
  fields.extensions = vector16(extension(21, std::string(kMaxClientHelloBytes - rest, '\0')));
  const std::string largest = hello_of(fields);
  ASSERT_EQ(largest.size(), kMaxClientHelloBytes);
  EXPECT_EQ(parse(largest).result.status, HelloStatus::kComplete);

  fields.extensions = vector16(extension(21, std::string(kMaxClientHelloBytes - rest + 1, '\0')));
  const std::string larger = records(message(fields.body()), 16384);
  EXPECT_EQ(parse(larger).text, "too large");
  EXPECT_EQ(parse(larger.substr(0, 9)).text, "too large") << "its header has the length";
  EXPECT_EQ(parse(from_hex("16 0301 4000 01 ffff")).text, "need more");
  EXPECT_EQ(parse(from_hex("16 0301 4000 01 ffffff")).text, "too large");

  // A message that is small enough, in too many records.
  fields.extensions = vector16(extension(21, std::string(3000, '\0')));
  EXPECT_EQ(parse(records(message(fields.body()), 1)).text, "too large");
}

TEST(ClientHelloTest, BoundsTheProtocolNames) {
  const std::string name(63, 'p');
  EXPECT_EQ(parse(hello_with(alpn({name, name, name, name}))).result.status, HelloStatus::kComplete);
  EXPECT_EQ(parse(hello_with(alpn({name, name, name, name, "h2"}))).text, "too large");
}

static_assert(std::input_iterator<AlpnList::Iterator>);

TEST(ClientHelloTest, FindsProtocols) {
  ClientHello hello;
  ASSERT_EQ(parse_client_hello(heap_buffer_of(hello_with(alpn({"h2", "http/1.1"}))), hello).status,
            HelloStatus::kComplete);
  EXPECT_TRUE(hello.alpn.contains("h2"));
  EXPECT_TRUE(hello.alpn.contains("http/1.1"));
  for (std::string_view other : {"", "h", "h3", "h2c", "\x02h2", "http/1.", "2"}) {
    EXPECT_FALSE(hello.alpn.contains(other)) << other;
  }
  EXPECT_FALSE(hello.alpn.empty());
  EXPECT_TRUE(ClientHello().alpn.empty());
}

TEST(ClientHelloTest, NoStateOfAnEarlierParseIsLeft) {
  ClientHello hello;
  const HelloCapture& chrome = hello_captures().back();
  ASSERT_EQ(parse_client_hello(heap_buffer_of(from_hex(chrome.hex)), hello).status, HelloStatus::kComplete);
  ASSERT_EQ(parse_client_hello(heap_buffer_of(hello_of({.extensions = ""})), hello).status, HelloStatus::kComplete);
  EXPECT_EQ(describe(hello), "name= alpn= version=771");
}

}  // namespace
}  // namespace sluice
