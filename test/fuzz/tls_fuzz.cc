// Anything that a peer may send after the handshake of TLS 1.2 or 1.3: any bytes (it does not have the keys), or any
// contents sealed with the right keys (it has them, and is hostile). In all cases the layer ends in one of its states,
// returns nothing that was not authentic, and holds no chunk when it is destroyed.
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

#include "alts_like/read_record_layer.h"
#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"
#include "sluice/internal/check.h"
#include "test/alts_like/handmade_records.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

Tls13Secret secret(Tls13Cipher cipher, uint8_t fill) {
  const std::vector<uint8_t> bytes(cipher == Tls13Cipher::kAes256Gcm ? 48 : 32, fill);
  return Tls13Secret::from(cipher, bytes, 0).value();
}

/// Each version: the layer, and a peer with the keys of what it reads.
struct Tls13 {
  static Tls13State state(uint8_t flags) {
    const Tls13Cipher cipher = flags & 1   ? Tls13Cipher::kChaCha20Poly1305
                               : flags & 2 ? Tls13Cipher::kAes256Gcm
                                           : Tls13Cipher::kAes128Gcm;
    Tls13State state;
    state.read = secret(cipher, 1);
    state.write = secret(cipher, 2);
    state.flags.is_client = flags & 4;
    return state;
  }
  using Layer = Tls13RecordLayer;

  explicit Tls13(const Tls13State& state) : records(state.read) {}
  std::string sealed(uint8_t type, const std::string& content, size_t padding) {
    return records.record(type, content, padding);
  }
  void update() { records.update(); }  // Whether the other side expects it or not.

  test::HandmadeRecords records;
};

struct Tls12 {
  static Tls12State state(uint8_t flags) {
    Tls12State state;
    state.read.cipher = state.write.cipher = flags & 1   ? Tls12Cipher::kChaCha20Poly1305
                                             : flags & 2 ? Tls12Cipher::kAes256Gcm
                                                         : Tls12Cipher::kAes128Gcm;
    state.read.key.fill(1);
    state.write.key.fill(2);
    return state;
  }
  using Layer = Tls12RecordLayer;

  explicit Tls12(const Tls12State& state) : records(state.read) {}
  std::string sealed(uint8_t type, const std::string& content, size_t) { return records.record(type, content); }
  void update() {}

  test::HandmadeTls12Records records;
};

class Fuzz : test::FuzzInput {
 public:
  Fuzz(const uint8_t* data, size_t size) : FuzzInput(data, size) {}

  void run() {
    const uint8_t flags = byte();
    flags & 8 ? run<Tls12>(flags) : run<Tls13>(flags);
  }

 private:
  template <typename Version>
  void run(uint8_t flags) {
    const auto state = Version::state(flags);
    {
      std::unique_ptr<RecordLayer> layer = std::make_unique<typename Version::Layer>(state);
      Version peer(state);
      while (!used_up()) step(layer, peer);
      Buffer wire;
      layer->flush(pool_, wire);
      if (layer->open(pool_, Buffer(), opened_) != RecordLayer::Status::kFailed) layer->seal_end(pool_, wire);
    }
    // The output is a prefix of what was sent as data with the right keys.
    SLUICE_CHECK(opened_.size() <= sent_.size() && std::string_view(sent_).starts_with(opened_.to_string()));
    opened_.clear();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

  template <typename Version>
  void step(std::unique_ptr<RecordLayer>& layer, Version& peer) {
    const uint8_t kind = byte();
    if (kind < 32) {  // Raw bytes.
      return give(layer, std::string(take(byte())));
    }
    if (kind < 36) return layer->park(pool_);
    if (kind < 40) return move(layer);
    if (kind < 48) {
      Buffer wire;
      return layer->flush(pool_, wire);
    }
    if (kind < 56) return peer.update();
    // A record: its type, how much content (some of it repeated), how much padding.
    const uint8_t type = kind < 160 ? 23 : kind < 200 ? 22 : kind < 220 ? 21 : std::max<uint8_t>(byte(), 1);
    std::string content(take(byte()));
    if (kind % 8 == 0 && !content.empty()) content.resize(content.size() * (1 + byte()), content[0]);
    if (type == 23) sent_ += content;
    give(layer, peer.sealed(type, content, kind % 4 == 0 ? byte() : 0));
  }

  // Moves it to another process, or to one that gets other bytes than were written.
  void move(std::unique_ptr<RecordLayer>& layer) {
    SecretBytes bytes;
    if (!layer->write_state(bytes)) return;
    const size_t at = byte(), flip = byte();
    SecretBytes changed = bytes;
    changed[at * 7 % changed.size()] ^= static_cast<uint8_t>(flip);
    if (const std::unique_ptr<RecordLayer> other = read_record_layer(pool_, changed)) {
      Buffer plain, wire;
      if (other->open(pool_, Buffer(), plain) != RecordLayer::Status::kFailed) other->seal_end(pool_, wire);
    }
    layer = read_record_layer(pool_, bytes);
    SLUICE_CHECK(layer);
  }

  // In windows that are cut as the input says.
  void give(std::unique_ptr<RecordLayer>& layer, std::string_view bytes) {
    const size_t cut = 1 + byte() * 8u;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, cut);
      bytes.remove_prefix(part.size());
      Buffer wire;
      SLUICE_CHECK(wire.append_copy(pool_, part));
      const Buffer shared = cut % 16 == 1 ? wire.clone() : Buffer();
      layer->open(pool_, std::move(wire), opened_);
    }
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  std::string sent_;
  Buffer opened_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz(data, size).run();
  return 0;
}
