// Anything that a peer may send after the handshake: any bytes (it does not have the keys), or any contents sealed with
// the right keys (it has them, and is hostile). In all cases the layer ends in one of its states, returns nothing that
// was not authentic, and holds no chunk when it is destroyed. Another layer opens what it seals.
//
// Input: a byte of flags, then as described by the comment at each read below.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/alts_record_layer.h"
#include "sluice/internal/check.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

// After this many bytes were sent to the layer, nothing large is sent any more.
constexpr size_t kManyBytes = size_t{1} << 20;

class Fuzz : test::FuzzInput {
 public:
  Fuzz(ChunkPool& pool, const uint8_t* data, size_t size) : FuzzInput(data, size), pool_(pool) {}

  void run() {
    const uint8_t flags = byte();
    const AltsProtocol protocol = flags & 1 ? AltsProtocol::kAes128Gcm : AltsProtocol::kAes128GcmRekey;
    const std::vector<uint8_t> key(AltsKeys::kMaxSecretBytes, flags);
    const size_t max_frame_bytes = size_t{64} << (flags >> 4);
    AltsState state = AltsState::from(protocol, key, flags & 2, max_frame_bytes).value();
    AltsState peer_state = AltsState::from(protocol, key, !(flags & 2), max_frame_bytes).value();
    state.flags.authenticated_end = peer_state.flags.authenticated_end = flags & 4;
    if (flags & 8) {  // Keys change, or counters end, soon after the beginning.
      const uint8_t low = byte();
      for (AltsCounter* counter : {&state.read, &state.write, &peer_state.read, &peer_state.write}) {
        std::fill_n(counter->bytes.begin(), low & 1 ? 2 : protocol == AltsProtocol::kAes128Gcm ? 5 : 8, uint8_t{0xff});
        counter->bytes[0] = low;
      }
    }
    {
      layer_ = std::make_unique<AltsRecordLayer>(state);
      AltsKeys peer(peer_state.protocol, peer_state.secret, peer_state.read, peer_state.write);
      AltsRecordLayer reader(peer_state);
      while (!used_up()) step(peer, reader);
      Buffer wire, plain;
      const bool failed = status_ == RecordLayer::Status::kFailed;
      layer_->seal_end(pool_, wire);
      SLUICE_CHECK(wire.empty() || (!failed && layer_->has_authenticated_end()));
      const bool ends = !wire.empty();
      const RecordLayer::Status status = reader.open(pool_, std::move(wire), plain);
      if (ends) SLUICE_CHECK(status == RecordLayer::Status::kEnded);
      layer_.reset();
    }
    // The output is a prefix of what was sent with the right keys.
    SLUICE_CHECK(opened_.size() <= sent_.size() && std::string_view(sent_).starts_with(opened_.to_string()));
    opened_.clear();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

 private:
  void step(AltsKeys& peer, AltsRecordLayer& reader) {
    const uint8_t kind = byte();
    if (kind < 32) return give(std::string(take(byte())));  // Raw bytes.
    if (kind < 48) return layer_->park(pool_);
    if (kind < 64) {  // Another layer continues with the state of this one.
      if (status_ == RecordLayer::Status::kFailed) return;
      const AltsState state = layer_->state();
      layer_ = std::make_unique<AltsRecordLayer>(state, layer_->take_partial());
      return;
    }
    if (kind < 96) return seal(reader);
    if (peer.write().exhausted) return;
    // A frame: how much content (some of it repeated, up to the longest), and its type.
    std::string content(take(byte()));
    if (kind % 8 == 0 && !content.empty() && sent_.size() < kManyBytes) {
      const size_t times = 1 + (kind % 16 == 0 ? 256u * byte() : byte());
      content.resize(std::min(content.size() * times, AltsRecordLayer::kMaxLength + 8), content[0]);
    }
    const uint8_t type = kind % 32 == 31 ? byte() : AltsRecordLayer::kFrameType;
    const size_t length = content.size() + AltsRecordLayer::kMinLength;
    sent_ += content;
    std::string frame;
    for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(length >> shift));
    frame.append({static_cast<char>(type), '\0', '\0', '\0'});
    frame += content + std::string(AltsKeys::kTagBytes, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(frame.data()) + AltsRecordLayer::kHeaderBytes;
    const CRYPTO_IOVEC piece{bytes, bytes, content.size()};
    peer.seal({&piece, 1}, bytes + content.size());
    give(frame);
  }

  // In windows that are cut as the input says.
  void give(std::string_view bytes) {
    const size_t size = bytes.size(), cut = 1 + size / 512 + byte() * std::max<size_t>(8, size / 64);
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, cut);
      bytes.remove_prefix(part.size());
      Buffer wire;
      SLUICE_CHECK(wire.append_copy(pool_, part));
      const Buffer shared = cut % 16 == 1 ? wire.clone() : Buffer();
      const RecordLayer::Status before = status_;
      status_ = layer_->open(pool_, std::move(wire), opened_);
      SLUICE_CHECK(status_ >= before && (status_ == RecordLayer::Status::kFailed) == !layer_->error().empty());
    }
  }

  // Some content, some of it repeated, shared or not.
  void seal(AltsRecordLayer& reader) {
    std::string content(take(byte()));
    const uint8_t times = byte();
    if (!content.empty()) content.resize(content.size() * (1 + times), content[0]);
    const bool possible = status_ != RecordLayer::Status::kFailed && !layer_->state().write.exhausted;
    Buffer plain, wire, opened;
    SLUICE_CHECK(plain.append_copy(pool_, content));
    const Buffer shared = times % 2 ? plain.clone() : Buffer();
    layer_->seal(pool_, std::move(plain), wire);
    SLUICE_CHECK(shared.empty() || shared == content);
    SLUICE_CHECK(possible || wire.empty());
    SLUICE_CHECK(reader.open(pool_, std::move(wire), opened) == RecordLayer::Status::kOpen);
    SLUICE_CHECK(std::string_view(content).starts_with(opened.to_string()));
    // All of it, or no counter was left.
    status_ = std::max(status_, layer_->open(pool_, Buffer(), opened_));
    SLUICE_CHECK(opened.size() == content.size() || status_ == RecordLayer::Status::kFailed);
  }

  ChunkPool& pool_;
  std::unique_ptr<AltsRecordLayer> layer_;
  RecordLayer::Status status_ = RecordLayer::Status::kOpen;
  std::string sent_;
  Buffer opened_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Shared by all inputs: creating one takes longer than most inputs.
  static sluice::ChunkPool pool({.budget_bytes = size_t{64} << 20});
  sluice::ChunkPool::Use use(&pool);
  sluice::Fuzz(pool, data, size).run();
  return 0;
}
