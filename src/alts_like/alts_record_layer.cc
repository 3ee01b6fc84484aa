#include "alts_like/alts_record_layer.h"

#include <openssl/aead.h>
#include <openssl/mem.h>

#include <algorithm>
#include <utility>

#include "alts_like/aead_pieces.h"
#include "sluice/cursor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr size_t kLengthBytes = 4;

// The first bytes of TLS records: their type, and version 3.3.
constexpr size_t kTlsDataRecord = 0x030317;
constexpr size_t kTlsAlertRecord = 0x030315;

// The same limit as for TLS, so that a peer cannot keep us busy with frames that carry nothing.
constexpr uint8_t kMaxEmptyInARow = 32;

// Frames that end within a cipher block would cut the chunk where the next frame is slow to seal: 5 % in place.
static_assert((AltsRecordLayer::kBestFrameBytes - AltsRecordLayer::kOverheadBytes) % 64 == 0);
// A frame that is not sealed in place must fit one chunk, and a frame to open the chunks that one cipher call takes.
static_assert(AltsRecordLayer::kBestFrameBytes <= kMaxChunkBytes);
static_assert(AltsRecordLayer::kMaxLength <= CRYPTO_IOVEC_MAX * kMaxChunkBytes + AltsRecordLayer::kMinLength);

std::array<uint8_t, AltsRecordLayer::kHeaderBytes> header_of(size_t plain_bytes) {
  const size_t length = plain_bytes + AltsRecordLayer::kMinLength;
  return {static_cast<uint8_t>(length),
          static_cast<uint8_t>(length >> 8),
          static_cast<uint8_t>(length >> 16),
          static_cast<uint8_t>(length >> 24),
          AltsRecordLayer::kFrameType,
          0,
          0,
          0};
}

}  // namespace

std::optional<AltsState> AltsState::from(AltsProtocol protocol, std::span<const uint8_t> key_data, bool is_client,
                                         size_t max_frame_bytes) {
  const size_t used = AltsKeys::secret_bytes(protocol);
  if (key_data.size() < used) return std::nullopt;
  AltsState state{
      .protocol = protocol,
      .secret = {},
      .read = AltsCounter::first(is_client),
      .write = AltsCounter::first(!is_client),
      .max_frame_bytes = static_cast<uint32_t>(std::clamp(max_frame_bytes, kMinFrameBytes, kMaxFrameBytes)),
      .flags = {},
  };
  std::copy_n(key_data.begin(), used, state.secret.begin());
  return state;
}

AltsRecordLayer::AltsRecordLayer(const AltsState& state, Buffer arrived)
    : keys_(state.protocol, state.secret, state.read, state.write),
      flags_(state.flags),
      max_frame_bytes_(state.max_frame_bytes),
      partial_(std::move(arrived)),
      status_(state.flags.ended ? Status::kEnded : Status::kOpen) {
  SLUICE_CHECK(max_frame_bytes_ >= AltsState::kMinFrameBytes && max_frame_bytes_ <= AltsState::kMaxFrameBytes);
}

AltsState AltsRecordLayer::state() const {
  SLUICE_CHECK(status_ != Status::kFailed);
  return {.protocol = keys_.protocol(),
          .secret = keys_.secret(),
          .read = keys_.read(),
          .write = keys_.write(),
          .max_frame_bytes = max_frame_bytes_,
          .flags = flags_};
}

// ---- Opening ----

RecordLayer::Status AltsRecordLayer::open(ChunkPool& pool, Buffer&& wire, Buffer& plain) {
  partial_.append(std::move(wire));
  while (status_ == Status::kOpen && open_frame(pool, plain)) {
  }
  if (status_ != Status::kOpen) partial_.clear();
  keep_compact(pool, partial_);
  return status_;
}

// Opens the next frame. False when there is nothing more to open.
bool AltsRecordLayer::open_frame(ChunkPool& pool, Buffer& plain) {
  if (partial_.size() < kHeaderBytes) return false;
  Cursor cursor(partial_);
  const size_t length = cursor.u32le();
  const uint32_t type = cursor.u32le();
  if (length < kMinLength) return fail("a frame that is shorter than its tag");
  if (length > kMaxLength) return fail("a frame of more than 1 MiB");
  if (type != kFrameType) {
    // After a TLS 1.3 handshake, a client learns only now that its certificate was refused.
    const bool is_tls = (length & 0xffffff) == kTlsDataRecord || (length & 0xffffff) == kTlsAlertRecord;
    return fail(is_tls ? "a record of TLS: the peer has refused the handshake" : "a frame of an unknown type");
  }
  if (partial_.size() < kLengthBytes + length) return false;
  if (keys_.read().exhausted) return fail("no frame counters are left to the peer");

  partial_.trim_front(kHeaderBytes);
  Buffer frame = partial_.split_front(kLengthBytes + length - kHeaderBytes);
  const PiecesToOpen sealed(pool, frame, AeadPieces::kAsTheyLie);
  if (!keys_.open(sealed.pieces(), sealed.tag())) return fail("a frame that is not authentic");
  if (!frame.empty()) {
    flags_.empty_in_a_row = 0;
    plain.append(std::move(frame));
    return true;
  }
  if (flags_.authenticated_end) {
    flags_.ended = true;
    status_ = Status::kEnded;
    return false;
  }
  if (++flags_.empty_in_a_row > kMaxEmptyInARow) return fail("too many empty frames");
  return true;
}

bool AltsRecordLayer::fail(std::string_view error) {
  status_ = Status::kFailed;
  error_ = error;
  return false;
}

// ---- Sealing ----

void AltsRecordLayer::seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) {
  const size_t most = std::min<size_t>(max_frame_bytes_, kBestFrameBytes) - kOverheadBytes;
  while (!plain.empty() && status_ != Status::kFailed) {
    const size_t bytes = next_record_bytes(plain, sealed_bytes_, most, CRYPTO_IOVEC_MAX);
    sealed_bytes_ += bytes;
    seal_frame(pool, plain.split_front(bytes), wire);
  }
  plain.clear();
}

void AltsRecordLayer::seal_end(ChunkPool& pool, Buffer& wire) {
  // After a failure, the end would signal a complete stream to the peer.
  if (flags_.authenticated_end && status_ != Status::kFailed) seal_frame(pool, Buffer(), wire);
}

void AltsRecordLayer::seal_frame(ChunkPool& pool, Buffer&& body, Buffer& wire) {
  if (keys_.write().exhausted) {
    fail("no frame counters are left");
    return;
  }
  const std::array<uint8_t, kHeaderBytes> header = header_of(body.size());
  PiecesToSeal frame(pool, header, body, {}, AeadPieces::kAsTheyLie);
  keys_.seal(frame.pieces(), frame.tag());
  frame.append_to(wire);
}

// ---- Parking ----

void AltsRecordLayer::park(ChunkPool& pool) {
  keys_.park();
  sealed_bytes_ = 0;
  settle_all(pool, partial_);
}

// ---- Serializing ----

namespace {

enum StateFlag : uint8_t { kAuthenticatedEnd = 1, kEnded = 2, kAllFlags = 3 };

AltsCounter read_counter(StateReader& in) {
  AltsCounter counter;
  std::ranges::copy(in.bytes(counter.bytes.size()), counter.bytes.begin());
  counter.exhausted = in.u8() != 0;
  return counter;
}

}  // namespace

bool AltsRecordLayer::write_state(SecretBytes& bytes) {
  if (status_ == Status::kFailed) return false;
  StateWriter out(bytes, RecordProtocol::kAlts);
  out.u8(static_cast<uint8_t>(keys_.protocol()));
  out.bytes(keys_.secret());
  for (const AltsCounter* counter : {&keys_.read(), &keys_.write()}) {
    out.bytes(counter->bytes);
    out.u8(counter->exhausted ? 1 : 0);
  }
  out.u32(max_frame_bytes_);
  out.u8(static_cast<uint8_t>((flags_.authenticated_end ? kAuthenticatedEnd : 0) | (flags_.ended ? kEnded : 0)));
  out.u8(flags_.empty_in_a_row);
  out.buffer(partial_);
  return out.done();
}

std::unique_ptr<RecordLayer> AltsRecordLayer::read_state(ChunkPool& pool, StateReader& in) {
  AltsState state;
  state.protocol = AltsProtocol{in.u8()};
  std::ranges::copy(in.bytes(state.secret.size()), state.secret.begin());
  state.read = read_counter(in);
  state.write = read_counter(in);
  state.max_frame_bytes = in.u32();
  const uint8_t flags = in.u8();
  state.flags = {
      .authenticated_end = (flags & kAuthenticatedEnd) != 0, .ended = (flags & kEnded) != 0, .empty_in_a_row = in.u8()};
  Buffer partial = in.buffer(pool);
  // Two counters of the same direction would reuse nonces.
  const uint8_t client = AltsCounter::first(true).bytes.back(), server = AltsCounter::first(false).bytes.back();
  const uint8_t read = state.read.bytes.back(), write = state.write.bytes.back();
  const bool well = in.done() && (flags & ~kAllFlags) == 0 && state.protocol <= AltsProtocol::kAes128Gcm &&
                    state.max_frame_bytes >= AltsState::kMinFrameBytes &&
                    state.max_frame_bytes <= AltsState::kMaxFrameBytes &&
                    ((read == client && write == server) || (read == server && write == client));
  std::unique_ptr<RecordLayer> layer;
  if (well) layer = std::make_unique<AltsRecordLayer>(state, std::move(partial));
  OPENSSL_cleanse(&state.secret, sizeof state.secret);
  return layer;
}

}  // namespace sluice
