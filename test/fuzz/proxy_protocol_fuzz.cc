// Any bytes, cut anywhere, as a PROXY header. The parser's result must depend on the bytes only; parsed addresses are
// written and parsed again.
//
// Input: one byte for the number of cuts, two bytes for the position of each, then what the peer sends.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/transport/proxy_protocol.h"
#include "test/support/buffers.h"
#include "test/support/cuts.h"

namespace sluice {
namespace {

bool same(ProxyField a, ProxyField b) { return a.offset == b.offset && a.size == b.size; }

bool same(const ProxyHeader& a, const ProxyHeader& b) {
  return a.version == b.version && a.source == b.source && a.destination == b.destination && same(a.alpn, b.alpn) &&
         same(a.authority, b.authority) && same(a.unique_id, b.unique_id);
}

// `result` for the first `size` bytes must be consistent with `whole` for more of them.
void check_prefix(ProxyResult result, size_t size, ProxyResult whole) {
  if (result.status != ProxyStatus::kNeedMore) {
    SLUICE_CHECK(result.status == whole.status && result.bytes == whole.bytes);
    return;
  }
  SLUICE_CHECK(result.bytes > size && result.bytes <= kMaxProxyV2Bytes);
  if (whole.status == ProxyStatus::kComplete) SLUICE_CHECK(result.bytes <= whole.bytes);
}

void check_dripping(std::string_view bytes, ProxyResult whole) {
  for (size_t size = 0;;) {
    ProxyHeader header;
    const ProxyResult result = parse_proxy_header(test::heap_buffer_of(bytes.substr(0, size)), header);
    check_prefix(result, size, whole);
    if (result.status != ProxyStatus::kNeedMore || result.bytes > bytes.size()) return;
    size = result.bytes;
  }
}

void check_contents(const ProxyHeader& header, size_t header_bytes) {
  SLUICE_CHECK(header.source.family() == header.destination.family());
  for (const ProxyField field : {header.alpn, header.authority, header.unique_id}) {
    SLUICE_CHECK(size_t{field.offset} + field.size <= header_bytes);
  }
}

// Writing the parsed addresses and parsing them again returns the same ones; Unix addresses are left out.
void check_round_trip(const ProxyHeader& header) {
  std::array<std::byte, kMaxWrittenProxyBytes> to;
  const PeerAddress source4 = header.source.unmapped(), destination4 = header.destination.unmapped();
  const bool both4 = source4.family() == AF_INET && destination4.family() == AF_INET;
  const PeerAddress& source = both4 ? source4 : header.source;
  const PeerAddress& destination = both4 ? destination4 : header.destination;
  const auto read_back = [&](size_t bytes) {
    const std::string_view text(reinterpret_cast<const char*>(to.data()), bytes);
    ProxyHeader again;
    const ProxyResult result = parse_proxy_header(test::heap_buffer_of(text), again);
    SLUICE_CHECK(result.status == ProxyStatus::kComplete && result.bytes == bytes);
    return again;
  };
  const bool expressed = header.source.family() != AF_UNIX;
  const auto check = [&](const ProxyHeader& again) {
    SLUICE_CHECK(again.source == (expressed ? source : PeerAddress()));
    SLUICE_CHECK(again.destination == (expressed ? destination : PeerAddress()));
  };
  check(read_back(write_proxy_v1(to, header.source, header.destination)));
  check(read_back(write_proxy_v2(to, header.source, header.destination)));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const test::CutInput input = test::cut_input(data, size);
  ProxyHeader header, cut_header;
  const ProxyResult whole = parse_proxy_header(test::heap_buffer_of(input.bytes), header);
  const ProxyResult cut = parse_proxy_header(test::heap_buffer_of(input.bytes, input.cuts), cut_header);
  check_prefix(whole, input.bytes.size(), whole);
  SLUICE_CHECK(cut.status == whole.status && cut.bytes == whole.bytes);
  if (whole.status == ProxyStatus::kComplete) {
    SLUICE_CHECK(whole.bytes <= input.bytes.size() && same(header, cut_header));
    check_contents(header, whole.bytes);
    check_round_trip(header);
  }
  check_dripping(input.bytes, whole);
  for (const size_t at : input.cuts) {
    const std::string_view prefix = input.bytes.substr(0, at);
    check_prefix(parse_proxy_header(test::heap_buffer_of(prefix), cut_header), prefix.size(), whole);
  }
  return 0;
}
