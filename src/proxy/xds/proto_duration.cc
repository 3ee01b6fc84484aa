#include "proxy/xds/proto_duration.h"

#include "proxy/common/proto_reader.h"

namespace sluice::xds {
namespace {

// Of the type: 10,000 years.
constexpr uint64_t kMaxSeconds = 315'576'000'000;
constexpr uint64_t kNanosInSecond = 1'000'000'000, kNanosInMs = 1'000'000, kMsInSecond = 1000;

}  // namespace

// Duration { seconds = 1, nanos = 2 }. As unsigned numbers, negative ones are too large.
std::optional<uint64_t> read_duration_ms(std::string_view bytes) {
  uint64_t seconds = 0, nanos = 0;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) seconds = in.number();
    if (in.is(2, ProtoWire::kVarint)) nanos = in.number();
  }
  if (!in.ok() || seconds > kMaxSeconds || nanos >= kNanosInSecond) return std::nullopt;
  return seconds * kMsInSecond + (nanos + kNanosInMs - 1) / kNanosInMs;
}

void write_duration_ms(ProtoWriter& out, uint32_t field, uint64_t ms) {
  const size_t duration = out.begin(field);
  if (ms >= kMsInSecond) out.number(1, ms / kMsInSecond);
  if (ms % kMsInSecond != 0) out.number(2, ms % kMsInSecond * kNanosInMs);
  out.end(duration);
}

}  // namespace sluice::xds
