#pragma once

#include <string_view>
#include <utility>

#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"

namespace sluice {

/// A record layer without records: bytes pass unchanged. It serves code that takes any RecordLayer. (Transport does not
/// use it: without TLS or ALTS it has a null pointer, which saves 46 instructions per receive and two allocations.)
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
  /// The end of the stream is the only end.
  bool has_authenticated_end() const override { return false; }
  bool write_state(SecretBytes& out) override { return StateWriter(out, RecordProtocol::kPlain).done(); }
  std::string_view error() const override { return {}; }
  void park(ChunkPool&) override {}
};

}  // namespace sluice
