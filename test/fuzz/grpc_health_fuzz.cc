// Any bytes, cut anywhere, as the body of a health service's response. The result must depend on the bytes only; it
// does not change with an unknown field before it, and the last status counts.
//
// Input: one byte for the number of cuts, two bytes for the position of each, then the body.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proxy/http/proxy/grpc_health.h"
#include "sluice/internal/check.h"
#include "test/support/buffers.h"
#include "test/support/cuts.h"

namespace sluice {
namespace {

std::string framed(std::string_view message) {
  std::string body(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) body.push_back(static_cast<char>(message.size() >> shift));
  return body.append(message);
}

std::optional<ServingStatus> read(std::string_view body) {
  Buffer buffer = test::heap_buffer_of(body);
  return read_grpc_health_response(buffer);
}

void check(std::string_view body, std::optional<ServingStatus> status) {
  SLUICE_CHECK(read(body) == status);
  if (!status) return;
  const std::string_view message = body.substr(5);
  SLUICE_CHECK(read(framed(std::string("\x7a\x01x").append(message))) == status);
  SLUICE_CHECK(read(framed(std::string(message).append("\x08\x01"))) == ServingStatus::kServing);
  SLUICE_CHECK(!read(body.substr(0, body.size() - 1)));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sluice::test::CutInput input = sluice::test::cut_input(data, size);
  sluice::Buffer buffer = sluice::test::heap_buffer_of(input.bytes, input.cuts);
  sluice::check(input.bytes, sluice::read_grpc_health_response(buffer));
  // As a complete message: a mutation seldom gets the length right.
  const std::string framed = sluice::framed(input.bytes);
  sluice::check(framed, sluice::read(framed));
  return 0;
}
