#include "proxy/alts/alts_handshake.h"

#include <openssl/mem.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "alts_like/alts_record_layer.h"
#include "buffer/copied.h"
#include "pool/check.h"

namespace sluice {

namespace {

// Beyond the budget if need be: it is bounded (AltsNegotiation::kMaxOutBytes).
void append(ChunkPool& pool, std::string_view bytes, Buffer& to) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxChunkBytes);
    Lease lease(ChunkRef::take(pool.get_metadata(piece)), 0, piece);
    counted_copy(lease.data(), bytes.data(), piece);
    to.append(std::move(lease));
    bytes.remove_prefix(piece);
  }
}

}  // namespace

AltsHandshake::AltsHandshake(HandshakerService& service, AltsOptions options, SlowWork& step)
    : service_(service), is_client_(options.is_client), negotiation_(std::move(options)), call_(service, step) {}

Handshake::Status AltsHandshake::advance(ChunkPool& pool, Buffer&& received, Buffer& out) {
  using Negotiation = AltsNegotiation::Status;
  if (!error_.empty()) return Status::kFailed;
  negotiation_.receive(pool, std::move(received));
  if (std::optional<std::string> response = call_.take_response()) {
    std::string frames;
    negotiation_.digest(*response, frames);
    append(pool, frames, out);
    OPENSSL_cleanse(response->data(), response->size());
  }
  std::optional<std::string> request = negotiation_.request();
  if (negotiation_.status() == Negotiation::kFailed) {
    return fail(negotiation_.error() + " (handshaker service: " + service_.address_text() + ')');
  }
  if (negotiation_.status() == Negotiation::kDone) {
    call_.finish();
    return Status::kDone;
  }
  if (!call_.error().empty()) return fail(call_.error());
  if (request) call_.send(std::move(*request));
  return Status::kNeedMore;
}

Handshake::Status AltsHandshake::fail(std::string error) {
  error_ = std::move(error);
  return Status::kFailed;
}

std::string AltsHandshake::awaited() const {
  return wants_bytes() ? "the peer" : "the handshaker service " + service_.address_text();
}

Agreement AltsHandshake::agreement() const {
  Agreement agreed;
  agreed.version = "ALTS";
  agreed.cipher = record_protocol();
  agreed.alpn = application_protocol();
  agreed.peer_names = {peer_identity()};
  agreed.common_name = peer_identity();
  agreed.certified = true;
  return agreed;
}

std::unique_ptr<RecordLayer> AltsHandshake::finish() {
  AltsResult result = negotiation_.take_result();
  std::optional<AltsState> state =
      AltsState::from(result.record_protocol, result.key_data, is_client_, result.max_frame_bytes);
  SLUICE_CHECK(state);
  auto layer = std::make_unique<AltsRecordLayer>(*state, std::move(result.leftover));
  OPENSSL_cleanse(&*state, sizeof *state);
  return layer;
}

}  // namespace sluice
