#include "proxy/alts/alts_handshake.h"

#include <openssl/mem.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "alts_like/alts_record_layer.h"
#include "sluice/internal/check.h"

namespace sluice {

AltsHandshake::AltsHandshake(HandshakerService& service, AltsOptions options, YieldingTask& step)
    : service_(service),
      is_client_(options.is_client),
      negotiation_(std::move(options)),
      call_(service, is_client_ ? HandshakerCall::Role::kClient : HandshakerCall::Role::kServer, step) {}

Handshake::Status AltsHandshake::advance(ChunkPool& pool, Buffer&& received, Buffer& out) {
  if (!error_.empty()) return Status::kFailed;
  negotiation_.receive(pool, std::move(received));
  take_response(pool, out);
  const std::optional<std::string> request = next_request();
  switch (negotiation_.status()) {
    case AltsNegotiation::Status::kFailed:
      return fail(negotiation_.error() + " (handshaker service: " + service_.address_text() + ')');
    case AltsNegotiation::Status::kDone:
      call_.finish();
      return Status::kDone;
    case AltsNegotiation::Status::kInProgress:
      break;
  }
  if (!call_.error().empty()) return fail(call_.error());
  if (request) call_.send(*request);
  return Status::kNeedMore;
}

// Bytes for the peer may exceed the memory budget, because AltsNegotiation::kMaxOutBytes bounds them.
void AltsHandshake::take_response(ChunkPool& pool, Buffer& out) {
  std::optional<std::string> response = call_.take_response();
  if (!response) return;
  std::string frames;
  negotiation_.digest(*response, frames);
  OPENSSL_cleanse(response->data(), response->size());
  if (frames.empty()) return;
  out.append_copy_beyond_budget(pool, frames);
  sent_ms_ = service_.worker().now_ms();
}

std::optional<std::string> AltsHandshake::next_request() {
  const uint64_t since_ms = sent_ms_ ? service_.worker().now_ms() - *sent_ms_ : 0;
  return negotiation_.request(static_cast<uint32_t>(std::min<uint64_t>(since_ms, UINT32_MAX)));
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
