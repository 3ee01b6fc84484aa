// Any bytes, cut anywhere, as a ClientHello. The parser's result must depend on the bytes only, not on the boundaries
// of windows or on how many bytes follow a verdict.
//
// Input: one byte for the number of cuts, two bytes for the position of each, then what the client sends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "alts_like/client_hello.h"
#include "test/support/buffers.h"
#include "test/support/cuts.h"

namespace sluice {
namespace {

// No more calls than this for one hello, however slowly it arrives: 1 + log(16,384) / log(6/5), and some for the first
// header.
constexpr int kMaxCalls = 64;

bool same(const ClientHello& a, const ClientHello& b) {
  return a.server_name() == b.server_name() && std::equal(a.alpn.begin(), a.alpn.end(), b.alpn.begin(), b.alpn.end()) &&
         a.highest_version == b.highest_version && a.has_ech == b.has_ech;
}

void check_contents(const ClientHello& hello) {
  const std::string_view name = hello.server_name();
  SLUICE_CHECK(name.size() <= kMaxServerNameBytes && !name.starts_with('.') && !name.ends_with('.'));
  for (const char c : name) {
    SLUICE_CHECK((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.');
  }
  size_t alpn_bytes = 0;
  for (std::string_view protocol : hello.alpn) {
    SLUICE_CHECK(!protocol.empty() && hello.alpn.contains(protocol));
    alpn_bytes += 1 + protocol.size();
  }
  SLUICE_CHECK(alpn_bytes <= kMaxAlpnBytes);
  SLUICE_CHECK(hello.highest_version == 0 || hello.highest_version >> 8 == 3);
}

// `result` for the first `size` bytes must be consistent with `whole` for more of them.
void check_prefix(HelloResult result, size_t size, HelloResult whole) {
  if (result.status != HelloStatus::kNeedMore) {
    SLUICE_CHECK(result.status == whole.status && result.bytes == whole.bytes);
    return;
  }
  SLUICE_CHECK(result.bytes > size && result.bytes <= kMaxClientHelloBytes);
  if (whole.status == HelloStatus::kComplete) SLUICE_CHECK(result.bytes <= whole.bytes);
}

void check_dripping(std::string_view bytes, HelloResult whole) {
  size_t size = 0;
  for (int calls = 1;; ++calls) {
    SLUICE_CHECK(calls <= kMaxCalls);
    ClientHello hello;
    const HelloResult result = parse_client_hello(test::heap_buffer_of(bytes.substr(0, size)), hello);
    check_prefix(result, size, whole);
    if (result.status != HelloStatus::kNeedMore || result.bytes > bytes.size()) return;
    size = result.bytes;
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const test::CutInput input = test::cut_input(data, size);
  ClientHello hello, cut_hello;
  const HelloResult whole = parse_client_hello(test::heap_buffer_of(input.bytes), hello);
  const HelloResult cut = parse_client_hello(test::heap_buffer_of(input.bytes, input.cuts), cut_hello);
  check_prefix(whole, input.bytes.size(), whole);
  SLUICE_CHECK(cut.status == whole.status && cut.bytes == whole.bytes);
  if (whole.status == HelloStatus::kComplete) {
    SLUICE_CHECK(whole.bytes <= input.bytes.size() && whole.bytes <= kMaxClientHelloBytes);
    SLUICE_CHECK(same(hello, cut_hello));
    check_contents(hello);
  }
  check_dripping(input.bytes, whole);
  for (const size_t at : input.cuts) {
    const std::string_view prefix = input.bytes.substr(0, at);
    check_prefix(parse_client_hello(test::heap_buffer_of(prefix), cut_hello), prefix.size(), whole);
  }
  return 0;
}
