#pragma once

#include <openssl/base.h>

#include <memory>
#include <string>
#include <string_view>

#include "alts_like/record_layer.h"
#include "alts_like/tls_wire.h"

namespace sluice {

/// A TLS 1.2 connection, which stays on its SSL object: bytes are copied in and out of it, and it is not parked.
class Tls12RecordLayer final : public RecordLayer {
 public:
  Tls12RecordLayer(bssl::UniquePtr<SSL> ssl, std::unique_ptr<TlsWire> wire);
  ~Tls12RecordLayer() override;

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  bool has_output() const override { return !wire_->out.empty(); }
  void flush(ChunkPool& pool, Buffer& wire) override;
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

 private:
  std::unique_ptr<TlsWire> wire_;
  bssl::UniquePtr<SSL> ssl_;
  std::string error_;
  Status status_ = Status::kOpen;
};

}  // namespace sluice
