#include "alts_like/tls12_record_layer.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>

#include "pool/check.h"

namespace sluice {

namespace {

// RFC 5246 section 6.2.1.
constexpr size_t kMaxPlainBytes = size_t{1} << 14;

}  // namespace

Tls12RecordLayer::Tls12RecordLayer(bssl::UniquePtr<SSL> ssl, std::unique_ptr<TlsWire> wire)
    : wire_(std::move(wire)), ssl_(std::move(ssl)) {
  // A peer that wants to negotiate anew is told no.
  SSL_set_renegotiate_mode(ssl_.get(), ssl_renegotiate_never);
}

Tls12RecordLayer::~Tls12RecordLayer() = default;

RecordLayer::Status Tls12RecordLayer::open(ChunkPool& pool, Buffer&& wire, Buffer& plain) {
  wire_->pool = &pool;
  wire_->in.append(std::move(wire));
  Lease block;
  while (status_ == Status::kOpen) {
    if (block.empty()) block = Lease(ChunkRef::take(pool.get_metadata(kMaxPlainBytes)), 0, kMaxPlainBytes);
    ERR_clear_error();
    const int read = SSL_read(ssl_.get(), block.data(), static_cast<int>(block.size()));
    if (read > 0) {
      Lease rest = block.split_off(static_cast<size_t>(read));
      plain.append(std::move(block));
      block = std::move(rest);
      continue;
    }
    switch (SSL_get_error(ssl_.get(), read)) {
      case SSL_ERROR_WANT_READ:
        return status_;
      case SSL_ERROR_ZERO_RETURN:
        status_ = Status::kEnded;
        break;
      default: {
        const char* reason = ERR_reason_error_string(ERR_peek_last_error());
        error_ = reason ? reason : "the connection ended";
        status_ = Status::kFailed;
        break;
      }
    }
    ERR_clear_error();
  }
  wire_->in.clear();
  return status_;
}

void Tls12RecordLayer::seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) {
  wire_->pool = &pool;
  for (std::span<const std::byte> window : plain.windows()) {
    const int size = static_cast<int>(window.size());
    SLUICE_CHECK(SSL_write(ssl_.get(), window.data(), size) == size);
  }
  plain.clear();
  flush(pool, wire);
}

void Tls12RecordLayer::flush(ChunkPool&, Buffer& wire) { wire.append(std::move(wire_->out)); }

void Tls12RecordLayer::seal_end(ChunkPool& pool, Buffer& wire) {
  wire_->pool = &pool;
  SSL_shutdown(ssl_.get());
  flush(pool, wire);
}

void Tls12RecordLayer::park(ChunkPool& pool) { wire_->in.settle(pool); }

}  // namespace sluice
