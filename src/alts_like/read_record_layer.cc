#include "alts_like/read_record_layer.h"

#include "alts_like/alts_record_layer.h"
#include "alts_like/plain_record_layer.h"
#include "alts_like/record_state.h"
#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"

namespace sluice {

std::unique_ptr<RecordLayer> read_record_layer(ChunkPool& pool, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxRecordStateBytes) return nullptr;
  StateReader in(bytes);
  if (in.u8() != kRecordStateVersion) return nullptr;
  switch (RecordProtocol{in.u8()}) {
    case RecordProtocol::kPlain:
      return in.done() ? std::make_unique<PlainRecordLayer>() : nullptr;
    case RecordProtocol::kTls13:
      return Tls13RecordLayer::read_state(pool, in);
    case RecordProtocol::kTls12:
      return Tls12RecordLayer::read_state(pool, in);
    case RecordProtocol::kAlts:
      return AltsRecordLayer::read_state(pool, in);
  }
  return nullptr;
}

}  // namespace sluice
