#pragma once

#include <string_view>
#include <utility>

#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"

namespace sluice {

/// No records at all: bytes pass as they are. For those who take any RecordLayer. (Transport does not use it: where
/// there is no TLS or ALTS it has a null pointer, which saves 46 instructions for each receive and two allocations.)
class PlainRecordLayer final : public RecordLayer {
 public:
  Status open(ChunkPool&, Buffer&& wire, Buffer& plain) override {
    plain.append(std::move(wire));
    return Status::kOpen;
  }
  void seal(ChunkPool&, Buffer&& plain, Buffer& wire) override { wire.append(std::move(plain)); }
  bool has_output() const override { return false; }
  void flush(ChunkPool&, Buffer&) override {}
  void seal_end(ChunkPool&, Buffer&) override {}
  /// An end of the stream is all the end there is.
  bool tells_end() const override { return false; }
  bool write_state(SecretBytes& out) override { return StateWriter(out, RecordProtocol::kPlain).done(); }
  std::string_view error() const override { return {}; }
  void park(ChunkPool&) override {}
};

}  // namespace sluice
